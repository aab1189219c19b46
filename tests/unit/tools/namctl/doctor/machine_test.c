/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/namctl/doctor/machine.h"

static char root[] = "/tmp/nam-machine-XXXXXX";

/* ---- parsers ------------------------------------------------------------------------------ */

static void
state_parse__both_spellings__THE_WORD(void **state)
{
	char text[16];

	(void)state;
	machine_state_parse("4: ACTIVE\n", text);
	assert_string_equal(text, "ACTIVE");
	machine_state_parse("1 INIT", text);
	assert_string_equal(text, "INIT");
	machine_state_parse("", text);
	assert_string_equal(text, "");
	machine_state_parse("9: A_STATE_THAT_NOBODY_KNOWS_YET", text);
	assert_int_equal(strlen(text), 15);
}

static void
gid_parse__kinds__ADDRESSES_AND_OTHERS(void **state)
{
	struct machine_gid gid = { 0 };

	(void)state;
	assert_true(machine_gid_parse("0000:0000:0000:0000:0000:ffff:0a4d:0102", &gid));
	assert_string_equal(gid.text, "10.77.1.2");
	assert_true(gid.address);
	assert_true(machine_gid_parse("fd77:0000:0000:0000:0000:0000:0000:0001", &gid));
	assert_string_equal(gid.text, "fd77:0000:0000:0000:0000:0000:0000:0001");
	assert_true(gid.address);
	assert_true(machine_gid_parse("fe80:0000:0000:0000:a877:2bff:fe60:0216", &gid));
	assert_false(gid.address);
}

static void
gid_parse__zero_or_nonsense__FALSE(void **state)
{
	struct machine_gid gid = { 0 };

	(void)state;
	assert_false(machine_gid_parse("0000:0000:0000:0000:0000:0000:0000:0000", &gid));
	assert_false(machine_gid_parse("fe80:0000", &gid));
	assert_false(machine_gid_parse("", &gid));
	assert_false(machine_gid_parse("Invalid argument", &gid));
}

static void
field_parse__meminfo_of_a_node__SKIPS_ITS_NUMBER(void **state)
{
	static const char text[] = "Node 1 MemTotalX:  1 kB\nNode 1 MemTotal:   42 kB\n";
	uint64_t value = 7;

	(void)state;
	assert_true(machine_field_parse(text, "MemTotal", 10, &value));
	assert_int_equal(value, 42);
	assert_false(machine_field_parse(text, "MemFree", 10, &value));
	assert_false(machine_field_parse("CapEff:\tx", "CapEff", 16, &value));
	assert_int_equal(value, 42);
	assert_true(machine_field_parse("Name:\tx\nCapEff:\t0000000000004000\n", "CapEff", 16,
		&value));
	assert_int_equal(value, 0x4000);
}

static void
limit_parse__numbers_and_unlimited__BOTH(void **state)
{
	static const char text[] =
		"Limit                     Soft Limit           Hard Limit           Units     \n"
		"Max locked memory         65536                unlimited            bytes     \n"
		"Max open files            \n";
	uint64_t soft = 1, hard = 2;

	(void)state;
	assert_true(machine_limit_parse(text, "Max locked memory", &soft, &hard));
	assert_int_equal(soft, 65536);
	assert_true(hard == MACHINE_UNLIMITED);
	assert_false(machine_limit_parse(text, "Max open files", &soft, &hard));
	assert_false(machine_limit_parse(text, "Max nothing", &soft, &hard));
	assert_int_equal(soft, 65536);
}

static void
choice_parse__brackets__THE_WORD(void **state)
{
	char choice[16];

	(void)state;
	machine_choice_parse("always within_size [advise] never deny force", choice);
	assert_string_equal(choice, "advise");
	machine_choice_parse("never", choice);
	assert_string_equal(choice, "");
}

/* ---- a planted machine -------------------------------------------------------------------- */

static void
plant(const char *path, const char *text)
{
	char full[400];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdir(full, 0755);
		*slash = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

#define PORT "/sys/class/infiniband/mlx5_0/ports/1"

static int
plant_machine(void **state)
{
	(void)state;
	strcpy(root + strlen(root) - 6, "XXXXXX");
	if (!mkdtemp(root))
		return -1;
	plant(PORT "/link_layer", "Ethernet\n");
	plant(PORT "/state", "4: ACTIVE\n");
	plant(PORT "/rate", "100 Gb/sec (4X EDR)\n");
	plant(PORT "/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
	plant(PORT "/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
	plant(PORT "/gids/10", "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
	plant(PORT "/gid_attrs/types/0", "IB/RoCE v1\n");
	plant(PORT "/gid_attrs/types/10", "RoCE v2\n");
	plant(PORT "/gid_attrs/ndevs/0", "eth7\n");
	plant("/sys/class/infiniband/mlx5_0/device/numa_node", "1\n");
	plant("/sys/class/net/eth7/mtu", "9000\n");
	plant("/sys/class/net/eth7/operstate", "up\n");
	plant("/sys/class/net/eth8/operstate", "down\n");
	plant("/sys/class/net/lo/operstate", "unknown\n");
	plant("/sys/class/infiniband_verbs/uverbs3/ibdev", "mlx5_0\n");
	plant("/sys/class/misc/rdma_cm/abi_version", "1\n");
	plant("/dev/infiniband/uverbs3", "");
	plant("/dev/infiniband/rdma_cm", "");
	plant("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
	plant("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n");
	plant("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "3\n");
	plant("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always [never]\n");
	plant("/sys/devices/system/node/node1/meminfo",
		"Node 1 MemTotal: 1024 kB\nNode 1 MemFree: 512 kB\n");
	plant("/proc/meminfo", "MemTotal: 4 kB\nMemAvailable: 2048 kB\n");
	plant("/proc/self/limits", "Max locked memory  unlimited  unlimited  bytes\n"
		"Max open files  1024  65536  files\n");
	plant("/proc/self/status", "CapEff:\t0000000000000000\n");
	plant("/proc/self/cgroup", "0::/nam.slice\n");
	plant("/sys/fs/cgroup/nam.slice/memory.max", "1048576\n");
	return 0;
}

static int
remove_machine(void **state)
{
	char command[80];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

/* A machine as planted; free it. */
static struct machine *
read_machine(void)
{
	struct machine *machine = malloc(sizeof(*machine));

	assert_non_null(machine);
	machine_read(root, machine);
	return machine;
}

static void
read__planted_machine__ALL_OF_IT(void **state)
{
	struct machine *machine = read_machine();
	const struct machine_device *device = &machine->device[0];
	const struct machine_port *port = &device->port[0];

	(void)state;
	assert_int_equal(machine->devices, 1);
	assert_string_equal(device->name, "mlx5_0");
	assert_string_equal(device->verbs, "uverbs3");
	assert_true(device->usable);
	assert_int_equal(device->node, 1);
	assert_int_equal(device->atomics, ATOMICS_UNKNOWN);
	assert_int_equal(device->ports, 1);
	assert_string_equal(port->state, "ACTIVE");
	assert_string_equal(port->interface, "eth7");
	assert_int_equal(port->interface_mtu, 9000);
	assert_int_equal(port->gids, 2);
	assert_int_equal(port->gid[1].index, 10);
	assert_string_equal(port->gid[1].text, "10.0.0.1");
	assert_true(machine->verbs_loaded && machine->cm_loaded && machine->cm_usable);
	assert_int_equal(machine->pages[0].bytes, 2 << 20);
	assert_int_equal(machine->pages[0].free, 500);
	assert_int_equal(machine->nodes, 1);
	assert_int_equal(machine->node[0].memory_bytes, 1 << 20);
	assert_int_equal(machine->available_bytes, 2 << 20);
	assert_int_equal(machine->group_bytes, 1 << 20);
	assert_true(machine->memlock_soft == MACHINE_UNLIMITED);
	assert_int_equal(machine->files_hard, 65536);
	assert_true(machine->nets_known);
	assert_int_equal(machine->nets_up, 1);
	assert_string_equal(machine->shmem_enabled, "never");
	free(machine);
}

static void
read__nothing__NOTHING(void **state)
{
	struct machine *machine = malloc(sizeof(*machine));

	(void)state;
	assert_non_null(machine);
	machine_read("/nonexistent", machine);
	assert_int_equal(machine->devices, 0);
	assert_int_equal(machine->sizes, 0);
	assert_false(machine->verbs_loaded);
	assert_false(machine->nets_known);
	free(machine);
}

/* ---- what is missing ---------------------------------------------------------------------- */

/* The level of the finding for a fabric that speaks of the word, or -1. */
static int
level_for(const struct findings *findings, const char *fabric, const char *word)
{
	for (unsigned i = 0; i < findings->count; i++)
		if (!strcmp(findings->at[i].fabric, fabric) &&
			(strstr(findings->at[i].what, word) ||
			strstr(findings->at[i].remedy, word)))
			return (int)findings->at[i].level;
	return -1;
}

static int
level_of(const struct findings *findings, const char *word)
{
	return level_for(findings, "verbs", word);
}

static void
examine__good_machine__NOTHING_MISSING(void **state)
{
	struct machine *machine = read_machine();
	struct findings findings;

	(void)state;
	doctor_examine(machine, &findings);
	assert_true(doctor_usable(&findings, "verbs"));
	assert_true(doctor_usable(&findings, "shm"));
	assert_true(doctor_usable(&findings, "tcp"));
	assert_int_equal(level_of(&findings, ""), -1);
	assert_int_equal(level_for(&findings, "tcp", "loopback"), -1);
	assert_int_equal(level_for(&findings, "tcp", "open files"), -1);
	free(machine);
}

static void
examine__one_lack_each__MISSING_WITH_ITS_REMEDY(void **state)
{
	struct machine *machine = read_machine(), *other = malloc(sizeof(*other));
	struct findings findings;

	(void)state;
	assert_non_null(other);
#define LACKS(change, word)                                                                         \
	do {                                                                                        \
		*other = *machine;                                                                  \
		change;                                                                             \
		doctor_examine(other, &findings);                                                   \
		assert_int_equal(level_of(&findings, word), FINDING_MISSING);                       \
		assert_false(doctor_usable(&findings, "verbs"));                                    \
		assert_true(doctor_usable(&findings, "shm"));                                       \
	} while (0)
	LACKS(other->verbs_left_out = true, "-DNAM_VERBS=ON");
	LACKS(other->devices = 0, "rdma link add");
	LACKS(other->verbs_loaded = false, "modprobe ib_uverbs");
	LACKS(other->cm_loaded = false, "modprobe rdma_ucm");
	LACKS(other->cm_usable = false, "/dev/infiniband/rdma_cm");
	LACKS(other->device[0].usable = false, "/dev/infiniband/uverbs3");
	LACKS(other->device[0].atomics = ATOMICS_NONE, "no atomics");
	LACKS(other->memlock_soft = 8 << 20, "ulimit -l");
	LACKS(strcpy(other->device[0].port[0].state, "DOWN"), "ip link set eth7 up");
	LACKS(other->device[0].port[0].gid[1].address = false, "ip addr add");
	LACKS((strcpy(other->device[0].port[0].state, "INIT"),
		strcpy(other->device[0].port[0].layer, "InfiniBand")), "opensm");
#undef LACKS
	free(other);
	free(machine);
}

static void
examine__second_device_works__FIRST_IS_A_DEFECT(void **state)
{
	struct machine *machine = read_machine();
	struct findings findings;

	(void)state;
	machine->devices = 2;
	machine->device[1] = machine->device[0];
	machine->device[0].atomics = ATOMICS_NONE;
	doctor_examine(machine, &findings);
	assert_int_equal(level_of(&findings, "no atomics"), FINDING_DEFECT);
	assert_true(doctor_usable(&findings, "verbs"));
	free(machine);
}

static void
examine__could_be_better__NOTES(void **state)
{
	struct machine *machine = read_machine();
	struct findings findings;

	(void)state;
	machine->pages[0].total = machine->pages[0].free = 0;
	machine->device[0].port[0].active_mtu = 1024;
	machine->memlock_soft = 1ull << 40;
	doctor_examine(machine, &findings);
	assert_int_equal(level_of(&findings, "nr_hugepages"), FINDING_NOTE);
	assert_int_equal(level_of(&findings, "ip link set eth7 mtu"), FINDING_NOTE);
	assert_int_equal(level_of(&findings, "ulimit -l"), FINDING_NOTE);
	assert_true(doctor_usable(&findings, "verbs"));
	machine->nets_up = 0;
	machine->files_hard = 256;
	doctor_examine(machine, &findings);
	assert_int_equal(level_for(&findings, "tcp", "nr_hugepages"), FINDING_NOTE);
	assert_int_equal(level_for(&findings, "tcp", "loopback"), FINDING_NOTE);
	assert_int_equal(level_for(&findings, "tcp", "LimitNOFILE"), FINDING_NOTE);
	assert_true(doctor_usable(&findings, "tcp"));
	machine->may_lock_all = true;
	doctor_examine(machine, &findings);
	assert_int_equal(level_of(&findings, "ulimit -l"), -1);
	free(machine);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(state_parse__both_spellings__THE_WORD),
		cmocka_unit_test(gid_parse__kinds__ADDRESSES_AND_OTHERS),
		cmocka_unit_test(gid_parse__zero_or_nonsense__FALSE),
		cmocka_unit_test(field_parse__meminfo_of_a_node__SKIPS_ITS_NUMBER),
		cmocka_unit_test(limit_parse__numbers_and_unlimited__BOTH),
		cmocka_unit_test(choice_parse__brackets__THE_WORD),
		cmocka_unit_test(read__planted_machine__ALL_OF_IT),
		cmocka_unit_test(read__nothing__NOTHING),
		cmocka_unit_test(examine__good_machine__NOTHING_MISSING),
		cmocka_unit_test(examine__one_lack_each__MISSING_WITH_ITS_REMEDY),
		cmocka_unit_test(examine__second_device_works__FIRST_IS_A_DEFECT),
		cmocka_unit_test(examine__could_be_better__NOTES),
	};

	return cmocka_run_group_tests(tests, plant_machine, remove_machine);
}
