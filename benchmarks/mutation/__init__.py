"""Would the tests notice? Small faults are put into the code, one at a time, and the tests are run."""
