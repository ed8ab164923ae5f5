/*
 * misbehave: an MPI program in which one rank goes wrong while the others wait for it, in MPI and
 * without using a processor. All ranks have met before, so every host takes part in the run.
 *
 * usage: misbehave RANK exit|kill|segv|abort    leave with _exit(3), by SIGKILL, by SIGSEGV or by
 *                                               MPI_Abort(5)
 *        misbehave SECONDS wait                 nobody goes wrong; all leave after that time
 *
 * Rank 0 says when: `all 3 ranks met at 1700000000.123`.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void pause_ms(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* A barrier that does not spin: other ranks may share this processor. */
static void meet(void)
{
    MPI_Request request;
    int met = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &met, MPI_STATUS_IGNORE); !met; MPI_Test(&request, &met, MPI_STATUS_IGNORE))
        pause_ms(2);
}

static void go_wrong(const char *how)
{
    if (strcmp(how, "exit") == 0)
        _exit(3);
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(how, "segv") == 0) {
        volatile int *nowhere = NULL;
        /* Libraries below MPI catch it, and then exit with a code. */
        signal(SIGSEGV, SIG_DFL);
        *nowhere = 1;
    }
    if (strcmp(how, "abort") == 0) {
        MPI_Abort(MPI_COMM_WORLD, 5);
        /* MPICH returns and is ended a moment later. */
        for (;;)
            pause();
    }
    fprintf(stderr, "misbehave: there is no way called `%s`\n", how);
    MPI_Abort(MPI_COMM_WORLD, 64);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3) {
        fprintf(stderr, "usage: misbehave RANK exit|kill|segv|abort, misbehave SECONDS wait\n");
        MPI_Abort(MPI_COMM_WORLD, 64);
    }
    meet();
    if (rank == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        printf("all %d ranks met at %lld.%03ld\n", ranks, (long long)now.tv_sec, now.tv_nsec / 1000000);
        fflush(stdout);
    }
    if (strcmp(argv[2], "wait") == 0) {
        double end = MPI_Wtime() + atof(argv[1]);
        while (MPI_Wtime() < end)
            pause_ms(100);
    } else if (rank == atoi(argv[1])) {
        /* So that the line above gets out: some launchers drop what ranks said just before. */
        pause_ms(1000);
        go_wrong(argv[2]);
    }
    meet();
    MPI_Finalize();
    return 0;
}
