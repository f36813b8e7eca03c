"""Questions about trained models, each a command: ``python -m analysis.<question> RUN``.

| question                | answer                                                                        |
|-------------------------|-------------------------------------------------------------------------------|
| `jacobian`              | is the state transition non-linear and non-diagonal? Theorem 1, blocks, spectrum |
| `convergence`           | how does the search for the fixed points go, and what does it cost?           |
| `agreement`             | do both modes of evaluation reach the same fixed points? Which others exist?  |
| `length_generalization` | how does accuracy change with length?                                         |
| `certify`               | what of Theorem 1 can be proved at visited states? A certificate               |
| `check_certificate`     | does a certificate hold? Proved again from the weights, by other means         |
| `report`                | all of these for one run or several                                           |
| `demo`                  | trains three models on parity and reports                                     |
"""
