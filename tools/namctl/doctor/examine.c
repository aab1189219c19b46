/* SPDX-License-Identifier: Apache-2.0 */
/* examine.c -- what is missing on a machine for each fabric, and what to do about it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/namctl/namctl.h"
#include "machine.h"

#define MIB (1024u * 1024u)
#define MEMLOCK_BYTES_MIN (64ull * MIB)	/* a client's buffers; a memory server needs all it has */
#define FILES_MIN 4096u
#define HUGE_BYTES (2u * MIB)
#define MTU_BEST 4096u

static const char shm[] = "shm", tcp[] = "tcp", verbs[] = "verbs";

static void NAM_PRINTF(5, 6)
find(struct findings *findings, const char *fabric, enum finding_level level, const char *remedy,
	const char *format, ...)
{
	struct finding *finding = &findings->at[findings->count];
	va_list args;

	if (findings->count == FINDINGS_MAX)
		return;
	findings->count++;
	finding->fabric = fabric;
	finding->level = level;
	snprintf(finding->remedy, sizeof(finding->remedy), "%s", remedy);
	va_start(args, format);
	vsnprintf(finding->what, sizeof(finding->what), format, args);
	va_end(args);
}

/* ---- memory ------------------------------------------------------------------------------- */

static const struct machine_pages *
pages_of(const struct machine *machine, uint64_t bytes)
{
	for (unsigned i = 0; i < machine->sizes; i++)
		if (machine->pages[i].bytes == bytes)
			return &machine->pages[i];
	return NULL;
}

static void
examine_huge_pages(const struct machine *machine, const char *fabric, struct findings *findings)
{
	const struct machine_pages *pages = pages_of(machine, HUGE_BYTES);

	if (!pages)
		find(findings, fabric, FINDING_NOTE, "run a kernel with CONFIG_HUGETLBFS",
			"the kernel has no huge pages of 2 MiB");
	else if (!pages->total)
		find(findings, fabric, FINDING_NOTE, "echo 1024 > "
			"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages   # 2 GiB",
			"no huge pages are reserved: random access to remote memory is slower");
	else if (pages->free <= pages->reserved)
		find(findings, fabric, FINDING_NOTE, "end their holders, or reserve more: echo N "
			"> /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
			"all %" PRIu64 " huge pages are in use", pages->total);
}

/* Needs of memory servers on any machine, over a fabric without limits of its own. */
static void
examine_host(const struct machine *machine, const char *fabric, struct findings *findings)
{
	examine_huge_pages(machine, fabric, findings);
	if (machine->group_bytes != MACHINE_UNLIMITED)
		find(findings, fabric, FINDING_NOTE, "raise memory.max of the group (systemd: "
			"MemoryMax=) if memory servers need more",
			"this control group may have %s of memory, regions included",
			ctl_bytes(machine->group_bytes).text);
	if (machine->files_hard < FILES_MIN)
		find(findings, fabric, FINDING_NOTE, "raise the hard limit of open files: "
			"limits.conf(5), or LimitNOFILE= of the service",
			"only %" PRIu64 " files may be open: each connection takes some",
			machine->files_hard);
}

/* Any kernel has TCP: the only possible defect is a host without other hosts. */
static void
examine_tcp(const struct machine *machine, struct findings *findings)
{
	examine_host(machine, tcp, findings);
	if (machine->nets_known && !machine->nets_up)
		find(findings, tcp, FINDING_NOTE, "ip link set INTERFACE up, and give it an "
			"address, if clients are on other hosts",
			"no network interface is up but the loopback");
}

/* ---- devices ------------------------------------------------------------------------------ */

static bool
has_address(const struct machine_port *port)
{
	for (unsigned i = 0; i < port->gids && i < MACHINE_GIDS_MAX; i++)
		if (port->gid[i].address && !strcmp(port->gid[i].type, "RoCE v2"))
			return true;
	return port->gids > MACHINE_GIDS_MAX;
}

static void
examine_state(const struct machine_device *device, const struct machine_port *port,
	struct findings *findings)
{
	char remedy[160] = "look after cable and switch; then ibstat";

	if (!strcmp(port->layer, "InfiniBand") && !strcmp(port->state, "INIT"))
		snprintf(remedy, sizeof(remedy), "start a subnet manager in the fabric: opensm");
	else if (strcmp(port->layer, "InfiniBand") != 0)
		snprintf(remedy, sizeof(remedy), "ip link set %s up; then look after cable and "
			"switch", *port->interface ? port->interface : "INTERFACE");
	find(findings, verbs, FINDING_DEFECT, remedy, "%s port %u is %s", device->name,
		port->number, *port->state ? port->state : "in an unknown state");
}

/* Whether connections can go through the port. */
static bool
examine_port(const struct machine_device *device, const struct machine_port *port,
	struct findings *findings)
{
	const char *interface = *port->interface ? port->interface : "INTERFACE";
	bool ethernet = !strcmp(port->layer, "Ethernet");
	char remedy[160];

	if (strcmp(port->state, "ACTIVE") != 0) {
		examine_state(device, port, findings);
		return false;
	}
	if (ethernet && !has_address(port)) {
		snprintf(remedy, sizeof(remedy), "ip addr add ADDRESS/BITS dev %s", interface);
		find(findings, verbs, FINDING_DEFECT, remedy, "%s port %u has no RoCE v2 GID with "
			"an IP address", device->name, port->number);
		return false;
	}
	if (port->active_mtu && port->active_mtu < MTU_BEST) {
		snprintf(remedy, sizeof(remedy), ethernet ? "ip link set %s mtu 4500, or more, on "
			"all hosts and switches" : "raise it in the subnet manager", interface);
		find(findings, verbs, FINDING_NOTE, remedy, "%s port %u sends packets of %u bytes; "
			"%u are possible", device->name, port->number, port->active_mtu, MTU_BEST);
	}
	return true;
}

/* Whether one of its ports, and it, can be used. */
static bool
examine_device(const struct machine_device *device, struct findings *findings)
{
	bool good = false;
	char remedy[160];

	for (unsigned i = 0; i < device->ports; i++)
		good |= examine_port(device, &device->port[i], findings);
	if (device->atomics == ATOMICS_NONE) {
		find(findings, verbs, FINDING_DEFECT, "use another device",
			"%s has no atomics", device->name);
		good = false;
	}
	if (*device->verbs && !device->usable) {
		snprintf(remedy, sizeof(remedy), "chmod 666 /dev/infiniband/%s, or install "
			"rdma-core, whose udev rules do", device->verbs);
		find(findings, verbs, FINDING_DEFECT, remedy, "/dev/infiniband/%s of %s may not be "
			"opened by this user, or is not there", device->verbs, device->name);
		good = false;
	}
	return good;
}

static void
examine_locking(const struct machine *machine, struct findings *findings)
{
	static const char remedy[] = "ulimit -l unlimited; for good: '* - memlock unlimited' in "
		"/etc/security/limits.d/nam.conf, or LimitMEMLOCK=infinity of the service";

	if (machine->may_lock_all || machine->memlock_soft == MACHINE_UNLIMITED)
		return;
	find(findings, verbs,
		machine->memlock_soft < MEMLOCK_BYTES_MIN ? FINDING_MISSING : FINDING_NOTE,
		remedy, "only %s may be locked, and so registered, by this user",
		ctl_bytes(machine->memlock_soft).text);
}

static void
examine_verbs(const struct machine *machine, struct findings *findings)
{
	bool good = false;

	if (machine->verbs_left_out)
		find(findings, verbs, FINDING_MISSING, "install libibverbs-dev and librdmacm-dev, "
			"and build anew with -DNAM_VERBS=ON", "verbs was left out of this program");
	if (!machine->devices) {
		find(findings, verbs, FINDING_MISSING, "load the driver of the network card, or "
			"make a software one: modprobe rdma_rxe && rdma link add rxe0 type rxe "
			"netdev INTERFACE", "there is no RDMA device");
		return;
	}
	for (unsigned i = 0; i < machine->devices; i++)
		good |= examine_device(&machine->device[i], findings);
	/* With no device that works, what is wrong with each of them is what is missing. */
	for (unsigned i = 0; !good && i < findings->count; i++)
		if (findings->at[i].level == FINDING_DEFECT)
			findings->at[i].level = FINDING_MISSING;
	if (!machine->verbs_loaded)
		find(findings, verbs, FINDING_MISSING, "modprobe ib_uverbs",
			"programs cannot use RDMA devices: no ib_uverbs");
	if (!machine->cm_loaded)
		find(findings, verbs, FINDING_MISSING, "modprobe rdma_ucm",
			"programs cannot make connections: no rdma_ucm");
	else if (!machine->cm_usable)
		find(findings, verbs, FINDING_MISSING, "chmod 666 /dev/infiniband/rdma_cm, or "
			"install rdma-core, whose udev rules do",
			"/dev/infiniband/rdma_cm may not be opened by this user, or is not there");
	examine_locking(machine, findings);
	examine_huge_pages(machine, verbs, findings);
}

void
doctor_examine(const struct machine *machine, struct findings *ret_findings)
{
	ret_findings->count = 0;
	examine_host(machine, shm, ret_findings);
	examine_tcp(machine, ret_findings);
	examine_verbs(machine, ret_findings);
}

bool
doctor_usable(const struct findings *findings, const char *fabric)
{
	for (unsigned i = 0; i < findings->count; i++)
		if (findings->at[i].level == FINDING_MISSING &&
			!strcmp(findings->at[i].fabric, fabric))
			return false;
	return true;
}
