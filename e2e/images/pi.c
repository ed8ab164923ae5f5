/*
 * pi: the smallest MPI program worth running. Throws points at the unit square and counts those
 * inside the quarter circle; says how many ranks ran, and on which hosts.
 *
 * usage: pi [SECONDS]    without SECONDS each rank throws a fixed number of points (a few ms)
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS_PER_BATCH = 1000000, BATCHES_BY_DEFAULT = 2 };

/* splitmix64: good enough spread from consecutive seeds, so the rank itself may be the seed. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

static uint64_t points_inside(uint64_t *state)
{
    uint64_t inside = 0;
    for (int i = 0; i < POINTS_PER_BATCH; i++) {
        uint64_t bits = next_random(state);
        double x = (double)(bits >> 32) / 4294967296.0;
        double y = (double)(bits & 0xffffffffULL) / 4294967296.0;
        inside += x * x + y * y < 1.0;
    }
    return inside;
}

/* One line per host, in the order of its lowest rank. */
static void print_hosts(const char *names, int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        const char *name = names + (size_t)rank * MPI_MAX_PROCESSOR_NAME;
        int seen = 0;
        for (int lower = 0; lower < rank && !seen; lower++)
            seen = strcmp(name, names + (size_t)lower * MPI_MAX_PROCESSOR_NAME) == 0;
        if (!seen)
            printf("rank %d of %d on %s\n", rank, ranks, name);
    }
}

int main(int argc, char **argv)
{
    int rank, ranks, name_length;
    char name[MPI_MAX_PROCESSOR_NAME] = "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_processor_name(name, &name_length);

    char *names = rank == 0 ? malloc((size_t)ranks * sizeof name) : NULL;
    if (rank == 0 && names == NULL) {
        fprintf(stderr, "pi: no memory for the names of %d ranks\n", ranks);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Gather(name, sizeof name, MPI_CHAR, names, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("Workers: %d\n", ranks);
        print_hosts(names, ranks);
        fflush(stdout);
        free(names);
    }

    double seconds = argc > 1 ? atof(argv[1]) : 0.0;
    double start = MPI_Wtime();
    uint64_t state = (uint64_t)rank;
    uint64_t mine[2] = {0, 0}, all[2] = {0, 0};
    for (int batch = 0; batch < BATCHES_BY_DEFAULT || MPI_Wtime() - start < seconds; batch++) {
        mine[0] += points_inside(&state);
        mine[1] += POINTS_PER_BATCH;
    }

    MPI_Reduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("pi is approximately %.6f\n", 4.0 * (double)all[0] / (double)all[1]);
    MPI_Finalize();
    return 0;
}
