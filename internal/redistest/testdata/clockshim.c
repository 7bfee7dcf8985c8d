// Preloaded into a redis-server, it shifts the wall clock by the nanoseconds that
// stand in the file named by REDISTEST_CLOCK, from one moment to the next. It asks
// the kernel itself: a lookup of the C library's functions hangs in jemalloc's start.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;

__attribute__((constructor)) static void map_shift(void) {
	const char *name = getenv("REDISTEST_CLOCK");
	int fd = name ? open(name, O_RDONLY) : -1;
	void *p = fd < 0 ? MAP_FAILED : mmap(0, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		_exit(96); // a clock that cannot be shifted must not go unnoticed
	shift = p;
	close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	int result = syscall(SYS_clock_gettime, id, ts);
	if (result == 0 && shift && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t ns = ts->tv_sec * INT64_C(1000000000) + ts->tv_nsec + *shift;
		ts->tv_sec = ns / 1000000000;
		ts->tv_nsec = ns % 1000000000;
	}
	return result;
}

int gettimeofday(struct timeval *tv, void *zone) {
	(void)zone;
	struct timespec ts;
	int result = clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return result;
}

time_t time(time_t *out) {
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (out)
		*out = ts.tv_sec;
	return ts.tv_sec;
}
