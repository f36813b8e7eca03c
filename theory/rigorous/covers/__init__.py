"""Sets of states that a closed loop provably cannot leave."""
