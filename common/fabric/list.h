/* SPDX-License-Identifier: Apache-2.0 */
/* list.h -- what <sys/queue.h> lacks. */
#ifndef NAM_COMMON_FABRIC_LIST_H
#define NAM_COMMON_FABRIC_LIST_H

#include <stdbool.h>
#include <sys/queue.h>

/* Take an element out of an SLIST if it is there; whether it was. */
#define NAM__SLIST_UNLINK(head, element, field)                                                     \
	({                                                                                          \
		__typeof__(SLIST_FIRST(head)) *at_ = &SLIST_FIRST(head);                            \
		bool found_;                                                                        \
                                                                                                    \
		while (*at_ && *at_ != (element))                                                   \
			at_ = &SLIST_NEXT(*at_, field);                                             \
		found_ = *at_ != NULL;                                                              \
		if (found_)                                                                         \
			*at_ = SLIST_NEXT(*at_, field);                                             \
		found_;                                                                             \
	})

#endif /* NAM_COMMON_FABRIC_LIST_H */
