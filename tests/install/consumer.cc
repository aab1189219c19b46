// SPDX-License-Identifier: Apache-2.0
// consumer.cc -- a C++ program outside this tree: the same headers, and calls that link.
#include <cstdint>
#include <cstdio>

#include <nam/nam.h>

int
main()
{
	nam_client_options options;
	nam_client *client = nullptr;
	nam_diag diag = {};
	unsigned char key[8];

	nam_client_options_init(&options);
	options.cluster = "shm:/nonexistent/nam-consumer";
	const int rc = nam_client_connect(&options, &client, &diag);
	std::printf("nam %s from C++; as expected: %s: %s\n", NAM_VERSION, nam_err_name(rc),
		diag.text);

	// Inline functions of the headers, which a C++ compiler translates itself.
	nam_key_from_u64(4711, key);
	const nam_gaddr at = nam_gaddr_make(3, 640, 7);
	const bool inlines_work = nam_key_to_u64(key) == 4711 && key[7] == 4711 % 256 &&
		nam_gaddr_region(at) == 3 && nam_gaddr_offset(at) == 640 &&
		nam_gaddr_tag(at) == 7 && nam_gaddr_is_null(NAM_GADDR_NULL);

	return nam_err_is(rc, NAM_E_FABRIC_CONNECT) && diag.text[0] && inlines_work ? 0 : 1;
}
