/* SPDX-License-Identifier: Apache-2.0 */
/* version.h -- the one place that names the version; the build reads it from here. */
#ifndef NAM_COMMON_VERSION_H
#define NAM_COMMON_VERSION_H

#define NAM_VERSION "0.1.0"

#endif /* NAM_COMMON_VERSION_H */
