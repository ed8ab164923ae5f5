/* Half the time of a round trip, and the bandwidth, between two ranks, for messages of 1 byte to 4 MiB. Every message that
 * comes back is compared with the one that was sent: a network that damages messages ends the program with 1. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 4 << 20, WARM_UP = 10, BYTES_PER_SIZE = 16 << 20, TRIPS_MAX = 1000, TRIPS_MIN = 10 };

/* Sends the message there and back, and returns 0 if it came back unchanged. */
static int round_trip(int rank, int size, char *message, char *received)
{
    if (rank == 0) {
        MPI_Send(message, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(received, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return memcmp(message, received, size);
    }
    MPI_Recv(received, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(received, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    return 0;
}

/* Prints a line of the table; the number of messages that came back damaged. */
static int measure(int rank, int size, char *message, char *received)
{
    int trips = BYTES_PER_SIZE / size;
    trips = trips > TRIPS_MAX ? TRIPS_MAX : trips < TRIPS_MIN ? TRIPS_MIN : trips;
    int damaged = 0;
    double start = 0;
    for (int trip = -WARM_UP; trip < trips; trip++) {
        if (trip == 0)
            start = MPI_Wtime();
        message[0] = (char)trip;
        damaged += round_trip(rank, size, message, received) != 0;
    }
    double seconds = (MPI_Wtime() - start) / trips / 2;
    if (rank == 0)
        printf("%8d %12.2f %12.2f\n", size, seconds * 1e6, size / seconds / 1e6);
    return damaged;
}

int main(int argc, char **argv)
{
    int rank, ranks, length, damaged = 0;
    char host[MPI_MAX_PROCESSOR_NAME], other[MPI_MAX_PROCESSOR_NAME];
    char *message = malloc(LARGEST), *received = malloc(LARGEST);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || message == NULL || received == NULL) {
        fprintf(stderr, "bandwidth needs memory and two ranks, and has %d ranks\n", ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 0; i < LARGEST; i++)
        message[i] = (char)(i * 7);
    MPI_Get_processor_name(host, &length);
    MPI_Sendrecv(host, sizeof host, MPI_CHAR, 1 - rank, 0, other, sizeof other, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (rank == 0)
        printf("# from %s to %s\n#  bytes   latency/us         MB/s\n", host, other);
    for (int size = 1; size <= LARGEST; size *= 4)
        damaged += measure(rank, size, message, received);
    if (rank == 0)
        printf("# %d messages came back damaged\n", damaged);
    MPI_Finalize();
    return damaged != 0;
}
