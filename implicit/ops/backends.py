"""What an op says of its choice among backends."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """What ``backend="auto"`` chooses for a request, and why.

    Attributes:
        chosen: name of the backend.
        reason: why this one.
        refusals: for every backend, why it cannot run the request and the remedy; None where it can.

    Example:
        >>> Explanation("chunked", "it is there", {"chunked": None, "triton": "no GPU; get one"}).chosen
        'chunked'
    """

    chosen: str
    reason: str
    refusals: dict[str, str | None]

    def __str__(self) -> str:
        lines = [f"auto chooses {self.chosen}: {self.reason}"]
        for name, refusal in self.refusals.items():
            lines.append(f"  {name:<10} " + ("available" if refusal is None else f"unavailable: {refusal}"))
        return "\n".join(lines)
