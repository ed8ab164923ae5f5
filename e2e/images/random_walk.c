/*
 * random_walk: walkers on a ring that is cut into one piece for each rank. A walker that comes to the
 * end of a piece goes on in the next one, so ranks send each other walkers until all have arrived.
 *
 * usage: random_walk RING_LENGTH MOST_STEPS WALKERS_PER_RANK
 *
 * Each rank says where it is; rank 0 says how many walkers arrived.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int number(int argc, char **argv, int index)
{
    long value = argc > index ? strtol(argv[index], NULL, 10) : 0;
    if (value <= 0 || value > 100000) {
        fprintf(stderr, "usage: random_walk RING_LENGTH MOST_STEPS WALKERS_PER_RANK\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return (int)value;
}

/* Walks everybody to the end of this piece; those with steps left move to the front of the list. */
static int walk(int *steps, int count, int piece, long *arrived)
{
    int going = 0;
    for (int walker = 0; walker < count; walker++) {
        if (steps[walker] > piece)
            steps[going++] = steps[walker] - piece;
        else
            ++*arrived;
    }
    return going;
}

int main(int argc, char **argv)
{
    int rank, ranks, name_length;
    char name[MPI_MAX_PROCESSOR_NAME] = "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_processor_name(name, &name_length);
    int length = number(argc, argv, 1), most = number(argc, argv, 2), walkers = number(argc, argv, 3);
    int piece = length > ranks ? length / ranks : 1;
    printf("rank %d of %d on %s\n", rank, ranks, name);

    int *here = calloc((size_t)ranks * walkers, sizeof *here);
    int *next = calloc((size_t)ranks * walkers, sizeof *next);
    if (here == NULL || next == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    srand((unsigned)rank + 1);
    for (int walker = 0; walker < walkers; walker++)
        here[walker] = 1 + rand() % most;

    long arrived = 0, all = 0;
    for (int count = walkers; all < (long)ranks * walkers;) {
        int going = walk(here, count, piece, &arrived), coming = 0;
        int ahead = (rank + 1) % ranks, behind = (rank + ranks - 1) % ranks;
        MPI_Status status;
        MPI_Sendrecv(here, going, MPI_INT, ahead, 0, next, ranks * walkers, MPI_INT, behind, 0,
                     MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &coming);
        int *walked = here;
        here = next, next = walked, count = coming;
        MPI_Allreduce(&arrived, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("all %ld walkers arrived\n", all);
    MPI_Finalize();
    return 0;
}
