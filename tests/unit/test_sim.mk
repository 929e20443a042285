# SPDX-License-Identifier: Apache-2.0
#
# Compares the simulated H200 with an H200: `make sim-fit` prints the table of docs/simulator/accuracy.md. With
# SIM_FIT=--fit it searches for better constants (minutes).
$(BUILD)/bench/sim_fit: $(BUILD)/obj/tests/bench/sim_fit.o $(DAEMON_A) $(GATE_O)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(DAEMON_LIBS)
SIM_FIT ?=
.PHONY: sim-fit
sim-fit: $(BUILD)/bench/sim_fit ## how far the simulated H200 is from an H200 (SIM_FIT=--fit: look for constants)
	@$< $(SIM_FIT)
# The test compares docs/simulator/accuracy.md with the program's output.
$(BUILD)/tests/unit/test_sim_fit: | $(BUILD)/bench/sim_fit
