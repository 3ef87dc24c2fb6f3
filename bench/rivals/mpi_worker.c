/* One peer of a collective of MPI: `mpi_worker COLLECTIVE STEP...`, a step being
 * bytes:in_place:batch:warm_ups:iterations. Rank 0 prints one JSON line per step, as gloo_worker.py does.
 * All but all_reduce are in place. */

#define _GNU_SOURCE
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum {
    PERIOD = 61, /* of the pattern; with 64 peers all sums stay exact in f32 */
    TAGS = 1009, /* no two calls of a step contribute the same: what is left over from one is seen in another */
    ROOT = 0     /* of a broadcast */
};

enum collective { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, COLLECTIVES };

static const char *const names[COLLECTIVES] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};

struct step {
    long bytes;
    int in_place, batch, warm_ups, iterations;
};

static int rank, peers;
static enum collective collective;

static void give_up(const char *why)
{
    fprintf(stderr, "%s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory)
        give_up("out of memory");
    return memory;
}

static double cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1e-6 * (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* elements of the whole buffer from `start` on: the pattern, shifted */
static void fill(float *part, long start, long count, int offset)
{
    for (long i = 0; i < count; i++)
        part[i] = (float)((start + i) % PERIOD + offset);
}

/* what nobody writes is not passed for a result of an earlier call */
static void spoil(float *buffer, long count)
{
    for (long i = 0; i < count; i++)
        buffer[i] = NAN;
}

/* what a rank contributes, and something wrong where it contributes nothing */
static void begin(float *buffer, long count, int tag)
{
    const long shard = count / peers;
    switch (collective) {
    case ALL_GATHER:
        spoil(buffer, count);
        fill(buffer + rank * shard, rank * shard, shard, rank + tag);
        break;
    case BROADCAST:
        if (rank != ROOT) {
            spoil(buffer, count);
            break;
        } /* fall through */
    default:
        fill(buffer, 0, count, rank + tag);
    }
}

static int tag_of(const struct step *step, int iteration, int place)
{
    return ((iteration + step->warm_ups) * step->batch + place) % TAGS;
}

/* elements of the whole buffer from `start` on that are not the pattern times `factor`, shifted */
static long differing(const float *part, long start, long count, int factor, int offset)
{
    long wrong = 0;
    for (long i = 0; i < count; i++)
        wrong += part[i] != (float)((start + i) % PERIOD * factor + offset);
    return wrong;
}

static long count_wrong(const float *buffer, long count, int tag)
{
    const long shard = count / peers;
    const int offset_of_sum = peers * (peers - 1) / 2 + peers * tag;
    long wrong = 0;
    switch (collective) {
    case REDUCE_SCATTER: /* in place, MPI puts the shard at the beginning */
        return differing(buffer, rank * shard, shard, peers, offset_of_sum);
    case ALL_GATHER:
        for (int of = 0; of < peers; of++)
            wrong += differing(buffer + of * shard, of * shard, shard, 1, of + tag);
        return wrong;
    case BROADCAST:
        return differing(buffer, 0, count, 1, ROOT + tag);
    default:
        return differing(buffer, 0, count, peers, offset_of_sum);
    }
}

static void print_result(const struct step *step, const double *sums)
{
    printf("{\"bytes\": %ld, \"in_place\": %d, \"times_us\": [", step->bytes, step->in_place);
    for (int i = 0; i < step->iterations; i++)
        printf("%s%.3f", i ? ", " : "", sums[i] * 1e6 / peers / step->batch);
    printf("], \"cpu_ns\": %.0f, \"calls\": %d, \"wrong\": %.0f}\n", sums[step->iterations] * 1e9,
           step->batch * step->iterations, sums[step->iterations + 1]);
    fflush(stdout);
}

static void call(const struct step *step, const float *from, float *to, int count)
{
    switch (collective) {
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(MPI_IN_PLACE, to, count / peers, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case ALL_GATHER:
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to, count / peers, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    case BROADCAST:
        MPI_Bcast(to, count, MPI_FLOAT, ROOT, MPI_COMM_WORLD);
        break;
    default:
        MPI_Allreduce(step->in_place ? MPI_IN_PLACE : from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
}

/* figures: the time of each iteration, then CPU seconds, then wrong elements */
static void iterate(const struct step *step, float **from, float **to, double *figures)
{
    const long count = step->bytes / (long)sizeof(float);
    for (int i = -step->warm_ups; i < step->iterations; i++) {
        for (int b = 0; b < step->batch; b++) {
            if (!step->in_place)
                spoil(to[b], count);
            begin(step->in_place ? to[b] : from[b], count, tag_of(step, i, b));
        }
        MPI_Barrier(MPI_COMM_WORLD);
        double cpu = cpu_seconds(), time = MPI_Wtime();
        for (int b = 0; b < step->batch; b++)
            call(step, from[b], to[b], (int)count);
        time = MPI_Wtime() - time, cpu = cpu_seconds() - cpu;
        MPI_Barrier(MPI_COMM_WORLD); /* checking would take the cores from ranks that are still at it */
        for (int b = 0; b < step->batch; b++)
            figures[step->iterations + 1] += count_wrong(to[b], count, tag_of(step, i, b));
        if (i >= 0) {
            figures[i] = time;
            figures[step->iterations] += cpu;
        }
    }
}

static void measure(const struct step *step)
{
    float **from = allocate(sizeof(float *) * step->batch), **to = allocate(sizeof(float *) * step->batch);
    for (int b = 0; b < step->batch; b++) {
        from[b] = step->in_place ? NULL : allocate(step->bytes);
        to[b] = allocate(step->bytes);
        fill(to[b], 0, step->bytes / (long)sizeof(float), -1); /* touched before the first call, in both forms */
    }
    double *figures = calloc(step->iterations + 2, sizeof(double)), *sums = calloc(step->iterations + 2, sizeof(double));
    if (!figures || !sums)
        give_up("out of memory");
    iterate(step, from, to, figures);
    MPI_Reduce(figures, sums, step->iterations + 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        print_result(step, sums);
    for (int b = 0; b < step->batch; b++) {
        free(from[b]);
        free(to[b]);
    }
    free(from), free(to), free(figures), free(sums);
}

int main(int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* ranks have process groups of their own: mpirun's death must be theirs */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &peers);
    while (argc > 1 && collective < COLLECTIVES && strcmp(argv[1], names[collective]))
        collective++;
    if (argc < 2 || collective == COLLECTIVES)
        give_up("no collective that is known");
    for (int i = 2; i < argc; i++) {
        struct step step;
        if (sscanf(argv[i], "%ld:%d:%d:%d:%d", &step.bytes, &step.in_place, &step.batch, &step.warm_ups,
                   &step.iterations) != 5)
            give_up("a step is bytes:in_place:batch:warm_ups:iterations");
        if (collective != ALL_REDUCE && !step.in_place)
            give_up("only all_reduce is measured out of place");
        measure(&step);
    }
    MPI_Finalize();
    return 0;
}
