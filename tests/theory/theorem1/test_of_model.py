"""`theory.check`: the headline of a model from its tokens alone."""

import torch
from torch import Tensor, nn

from tests.refusals import refusals
from theory import Transition, check, check_theorem1
from theory.transition import State

WEIGHT = torch.tensor([[0.5, 1.0], [-1.0, 0.5]], dtype=torch.float64)


class TanhRNN(nn.Module):
    """h' = tanh(W h + token), with a fixed point z = h or without one; the state starts at (1, 0)."""

    def __init__(self, *, implicit: bool) -> None:
        super().__init__()
        self.weight, self.implicit = nn.Parameter(WEIGHT.float()), implicit

    def init_state(self, batch_size: int) -> State:
        return {"h": self.weight.new_tensor([[1.0, 0.0]]).expand(batch_size, -1)}

    def after(self, h: Tensor, token: int) -> Tensor:
        return torch.tanh(self.weight.detach() @ h + token)

    def transition(self, token: int) -> Transition:
        if not self.implicit:
            return Transition(lambda z, s: z, lambda z, s: {"h": self.after(s["h"], token)}, 0, (("h",),))
        update = lambda z, s: {"h": s["h"] / 2 + self.after(z, token) - z / 2}  # noqa: E731
        return Transition(lambda z, s: s["h"], update, 2, (("h",),))


def test_the_states_are_those_that_the_tokens_lead_to_and_the_words_say_what_holds() -> None:
    tokens = [1, 0, 1, 1]
    found = check(TanhRNN(implicit=True), tokens, seed=0)
    assert found.headline == "non-diagonal and non-linear; the conclusions of Theorem 1 hold"
    assert repr(found).startswith(
        "Non-diagonal and non-linear; the conclusions of Theorem 1 hold: of 3 visited"
    )
    assert "Conditions: C1 holds, C2 holds, C3 holds, C4 holds." in repr(found)
    assert len(repr(found).splitlines()) <= 10
    # by hand: the states before the second, the third and the fourth token, in float64 as the weights are
    h, states = torch.tensor([1.0, 0.0], dtype=torch.float64), []
    for token in tokens:
        states.append({"h": h})
        h = torch.tanh(WEIGHT @ h + token)
    model = TanhRNN(implicit=True).double()
    for token, at in ((0, [1]), (1, [2, 3])):
        several = [states[place] for place in at]
        by_hand = check_theorem1(model.transition(token), several, alternatives=states[1:], seed=0)
        masses = {check.off_diagonal_mass for check in by_hand.checks}
        # rounding of the states, which come about by other operations
        assert all(any(abs(m - f) < 1e-12 for f in found.values("off_diagonal_mass")) for m in masses)


def test_a_model_without_a_fixed_point_gets_the_words_that_all_pages_use() -> None:
    model = TanhRNN(implicit=False)
    found = check(model, torch.tensor([[1, 0, 1], [0, 0, 1]]), states=3)
    assert found.headline == "non-diagonal and non-linear; Theorem 1 does not apply (no fixed point)"
    assert len(found.checks) == 3
    assert model.weight.dtype == torch.float32  # a copy was asked
    assert len(check(model, [1]).checks) == 1


test_what_is_wrong_is_said_in_one_sentence = refusals(
    (lambda: check(nn.Linear(1, 1), [0]), "model is .*; give a model with init_state and transition"),  # type: ignore[arg-type]
    (
        lambda: check(TanhRNN(implicit=True), [0.5]),  # type: ignore[arg-type]
        r"tokens is torch.float32 of shape \[1\]; give whole numbers",
    ),
    (lambda: check(TanhRNN(implicit=True), []), "give whole numbers"),
    (lambda: check(TanhRNN(implicit=True), [[0, 1], [0]]), "tokens is list; give whole numbers"),
    (lambda: check(TanhRNN(implicit=True), "0101"), "tokens is str; give whole numbers"),  # type: ignore[arg-type]
)
