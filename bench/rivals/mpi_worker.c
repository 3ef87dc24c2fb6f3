/* One peer of MPI_Allreduce: `mpi_worker STEP...`, a step being bytes:in_place:batch:warm_ups:iterations.
 * Rank 0 prints one JSON line per step, as gloo_worker.py does. */

#define _GNU_SOURCE
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum {
    PERIOD = 61, /* of the pattern; with 64 peers all sums stay exact in f32 */
    TAGS = 1009  /* no two reduces of a step contribute the same: what is left over from one is seen in another */
};

struct step {
    long bytes;
    int in_place, batch, warm_ups, iterations;
};

static int rank, peers;

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

static void fill(float *buffer, long count, int offset)
{
    for (long i = 0; i < count; i++)
        buffer[i] = (float)(i % PERIOD + offset);
}

/* what nobody writes is not passed for a result of an earlier reduce */
static void spoil(float *buffer, long count)
{
    for (long i = 0; i < count; i++)
        buffer[i] = NAN;
}

static int tag_of(const struct step *step, int iteration, int place)
{
    return ((iteration + step->warm_ups) * step->batch + place) % TAGS;
}

static long count_wrong(const float *buffer, long count, int tag)
{
    long wrong = 0;
    for (long i = 0; i < count; i++)
        wrong += buffer[i] != (float)(i % PERIOD * peers + peers * (peers - 1) / 2 + peers * tag);
    return wrong;
}

static void print_result(const struct step *step, const double *sums)
{
    printf("{\"bytes\": %ld, \"in_place\": %d, \"times_us\": [", step->bytes, step->in_place);
    for (int i = 0; i < step->iterations; i++)
        printf("%s%.3f", i ? ", " : "", sums[i] * 1e6 / peers / step->batch);
    printf("], \"cpu_ns\": %.0f, \"reduces\": %d, \"wrong\": %.0f}\n", sums[step->iterations] * 1e9,
           step->batch * step->iterations, sums[step->iterations + 1]);
    fflush(stdout);
}

static void reduce_batch(const struct step *step, float **from, float **to, int count)
{
    for (int b = 0; b < step->batch; b++)
        MPI_Allreduce(step->in_place ? MPI_IN_PLACE : from[b], to[b], count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* figures: the time of each iteration, then CPU seconds, then wrong elements */
static void iterate(const struct step *step, float **from, float **to, double *figures)
{
    const long count = step->bytes / (long)sizeof(float);
    for (int i = -step->warm_ups; i < step->iterations; i++) {
        for (int b = 0; b < step->batch; b++) {
            if (!step->in_place)
                spoil(to[b], count);
            fill(step->in_place ? to[b] : from[b], count, rank + tag_of(step, i, b));
        }
        MPI_Barrier(MPI_COMM_WORLD);
        double cpu = cpu_seconds(), time = MPI_Wtime();
        reduce_batch(step, from, to, (int)count);
        time = MPI_Wtime() - time, cpu = cpu_seconds() - cpu;
        MPI_Barrier(MPI_COMM_WORLD); /* checking would take the cores from ranks that still reduce */
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
        fill(to[b], step->bytes / (long)sizeof(float), -1); /* touched before the first reduce, in both forms */
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
    for (int i = 1; i < argc; i++) {
        struct step step;
        if (sscanf(argv[i], "%ld:%d:%d:%d:%d", &step.bytes, &step.in_place, &step.batch, &step.warm_ups,
                   &step.iterations) != 5)
            give_up("a step is bytes:in_place:batch:warm_ups:iterations");
        measure(&step);
    }
    MPI_Finalize();
    return 0;
}
