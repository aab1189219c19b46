/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repeat.h -- how to repeat the run under way.  A run that ends by a signal prints it.
 */
#ifndef NAM_TESTS_SIM_REPEAT_H
#define NAM_TESTS_SIM_REPEAT_H

#include <stdbool.h>

extern char sim_repeat[4400];

/* From now on, or no longer, a signal that ends this process prints the text first. */
void sim_repeat_on_signals(bool on);

#endif /* NAM_TESTS_SIM_REPEAT_H */
