/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.c -- what only libibverbs knows of a device: its atomics, and the MTU in use.
 *
 * The library is opened when it is asked, for a doctor has to run where it is not installed.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>

/* The calls that the header makes macros of have their own names in the library. */
#undef ibv_query_port

struct library {
	struct ibv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
};

/* True if all is there.  The library stays open: it may have left handlers. */
static bool
open_library(struct library *library)
{
	void *const handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	const struct {
		void *slot;
		const char *name;
	} symbols[] = {
		{ &library->get_device_list, "ibv_get_device_list" },
		{ &library->free_device_list, "ibv_free_device_list" },
		{ &library->get_device_name, "ibv_get_device_name" },
		{ &library->open_device, "ibv_open_device" },
		{ &library->close_device, "ibv_close_device" },
		{ &library->query_device, "ibv_query_device" },
		{ &library->query_port, "ibv_query_port" },
	};

	if (!handle)
		return false;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(handle, symbols[i].name);

		if (!symbol)
			return false;
		/* POSIX promises that these have one size; C does not let us convert. */
		memcpy(symbols[i].slot, &symbol, sizeof(symbol));
	}
	return true;
}

static enum machine_atomics
atomics_of(enum ibv_atomic_cap cap)
{
	switch (cap) {
	case IBV_ATOMIC_NONE:
		return ATOMICS_NONE;
	case IBV_ATOMIC_HCA:
		return ATOMICS_HCA;
	default:
		return ATOMICS_GLOBAL;
	}
}

static void
ask(const struct library *library, struct ibv_device *from, struct machine_device *device)
{
	struct ibv_context *context = library->open_device(from);
	struct ibv_device_attr attr;

	if (!context)
		return;
	if (!library->query_device(context, &attr))
		device->atomics = atomics_of(attr.atomic_cap);
	for (unsigned i = 0; i < device->ports; i++) {
		struct ibv_port_attr port;

		memset(&port, 0, sizeof(port));
		if (!library->query_port(context, (uint8_t)device->port[i].number, &port) &&
			port.active_mtu >= IBV_MTU_256 && port.active_mtu <= IBV_MTU_4096)
			device->port[i].active_mtu = 128u << port.active_mtu;
	}
	(void)library->close_device(context);
}

void
machine_ask_verbs(struct machine *machine)
{
	struct library library;
	struct ibv_device **list;

	if (!machine->devices || !open_library(&library))
		return;
	list = library.get_device_list(NULL);
	if (!list)
		return;
	for (unsigned i = 0; i < machine->devices; i++)
		for (struct ibv_device **at = list; *at; at++)
			if (!strcmp(library.get_device_name(*at), machine->device[i].name))
				ask(&library, *at, &machine->device[i]);
	library.free_device_list(list);
}

#else

void
machine_ask_verbs(struct machine *machine)
{
	(void)machine;
}

#endif
