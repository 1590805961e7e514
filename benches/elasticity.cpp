// Products and substitutions with which benches/apps.rs compares those of nodegauge: Eigen's product of a sparse matrix
// with a vector, and plain loops over 3 x 3 blocks as a compiler translates them. Reads a matrix by rows (number of rows,
// number of nonzeros, starts, columns, values; columns have 32 bits, everything else 64), runs the three interleaved,
// and prints the name and the seconds of each.
//
// The substitution is that of a block-IC(0) whose threads eliminate their own rows: the blocks below the diagonal, then
// those above it downward, with an inverse of 3 x 3 per row. The time does not depend on the values, which are scaled so
// that they stay finite.
#include <Eigen/Sparse>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <omp.h>
#include <vector>

// Blocks of rows of a thread.
struct Blocks {
    std::vector<std::int64_t> starts{0};
    std::vector<std::int32_t> columns;
    std::vector<double> values;
};

// Rows of a thread: the matrix, the blocks below and above the diagonal within these rows, and the inverses.
struct Part {
    std::int64_t first, end;
    Blocks whole, lower, upper;
    std::vector<double> inverse;
};

static void multiply(const Part &part, const double *x, double *y) {
    for (std::int64_t row = part.first; row < part.end; row++) {
        double s0 = 0, s1 = 0, s2 = 0;
        for (auto at = part.whole.starts[row - part.first]; at < part.whole.starts[row - part.first + 1]; at++) {
            const double *v = &part.whole.values[9 * at], *of = x + 3 * part.whole.columns[at];
            s0 += v[0] * of[0] + v[1] * of[1] + v[2] * of[2];
            s1 += v[3] * of[0] + v[4] * of[1] + v[5] * of[2];
            s2 += v[6] * of[0] + v[7] * of[1] + v[8] * of[2];
        }
        y[3 * row] = s0, y[3 * row + 1] = s1, y[3 * row + 2] = s2;
    }
}

static void substitute(const Part &part, const double *r, double *z) {
    const Blocks &lower = part.lower, &upper = part.upper;
    for (std::int64_t row = part.first; row < part.end; row++) {
        double s0 = r[3 * row], s1 = r[3 * row + 1], s2 = r[3 * row + 2];
        for (auto at = lower.starts[row - part.first]; at < lower.starts[row - part.first + 1]; at++) {
            const double *v = &lower.values[9 * at], *of = z + 3 * lower.columns[at];
            s0 -= v[0] * of[0] + v[1] * of[1] + v[2] * of[2];
            s1 -= v[3] * of[0] + v[4] * of[1] + v[5] * of[2];
            s2 -= v[6] * of[0] + v[7] * of[1] + v[8] * of[2];
        }
        z[3 * row] = s0, z[3 * row + 1] = s1, z[3 * row + 2] = s2;
    }
    for (std::int64_t row = part.end - 1; row >= part.first; row--) {
        const double *d = &part.inverse[9 * (row - part.first)], *w = z + 3 * row;
        double s0 = d[0] * w[0] + d[1] * w[1] + d[2] * w[2];
        double s1 = d[3] * w[0] + d[4] * w[1] + d[5] * w[2];
        double s2 = d[6] * w[0] + d[7] * w[1] + d[8] * w[2];
        for (auto at = upper.starts[row - part.first + 1]; at-- > upper.starts[row - part.first];) {
            const double *v = &upper.values[9 * at], *of = z + 3 * upper.columns[at];
            s0 -= v[0] * of[0] + v[1] * of[1] + v[2] * of[2];
            s1 -= v[3] * of[0] + v[4] * of[1] + v[5] * of[2];
            s2 -= v[6] * of[0] + v[7] * of[1] + v[8] * of[2];
        }
        z[3 * row] = s0, z[3 * row + 1] = s1, z[3 * row + 2] = s2;
    }
}

template <class Work> static void timed(const char *name, bool counts, Work work) {
    auto begun = std::chrono::steady_clock::now();
    work();
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    if (counts) std::printf("%s %.9f\n", name, took.count());
}

int main(int count, char **words) {
    std::FILE *file = count == 3 ? std::fopen(words[1], "rb") : nullptr;
    std::int64_t size[2];
    if (!file || std::fread(size, 8, 2, file) != 2) return 2;
    std::vector<std::int64_t> starts(size[0] + 1);
    std::vector<std::int32_t> columns(size[1]);
    std::vector<double> values(size[1]);
    if (std::fread(starts.data(), 8, starts.size(), file) != starts.size() ||
        std::fread(columns.data(), 4, columns.size(), file) != columns.size() ||
        std::fread(values.data(), 8, values.size(), file) != values.size())
        return 2;
    using Matrix = Eigen::SparseMatrix<double, Eigen::RowMajor, std::int32_t>;
    std::vector<std::int32_t> outer(starts.begin(), starts.end());
    Matrix matrix = Eigen::Map<Matrix>(size[0], size[0], size[1], outer.data(), columns.data(), values.data());
    Eigen::VectorXd x = Eigen::VectorXd::Ones(size[0]), y(size[0]), z(size[0]), w(size[0]);
    const std::int64_t rows = size[0] / 3;
    std::vector<Part> parts(omp_get_max_threads());
    // The threads fill their parts, so that the memory is theirs.
#pragma omp parallel
    {
        const std::int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
        Part &part = parts[me];
        part.first = rows * me / all, part.end = rows * (me + 1) / all;
        for (std::int64_t row = part.first; row < part.end; row++) {
            const std::int64_t begin = starts[3 * row], nodes = (starts[3 * row + 1] - begin) / 3;
            for (std::int64_t node = 0; node < nodes; node++) {
                const std::int32_t column = columns[begin + 3 * node] / 3;
                auto add = [&](Blocks &to, double scale) {
                    to.columns.push_back(column);
                    for (int i = 0; i < 3; i++)
                        for (int j = 0; j < 3; j++)
                            to.values.push_back(scale * values[starts[3 * row + i] + 3 * node + j]);
                };
                add(part.whole, 1);
                if (column < row && column >= part.first) add(part.lower, 1e-3);
                if (column > row && column < part.end) add(part.upper, 1e-3);
            }
            for (Blocks *of : {&part.whole, &part.lower, &part.upper}) of->starts.push_back(of->columns.size());
            for (int i = 0; i < 9; i++) part.inverse.push_back(i % 4 == 0 ? 1e-3 : 0.0);
        }
    }
    for (int i = 0; i <= std::atoi(words[2]); i++) {
        // The first round is a warm-up.
        timed("eigen", i > 0, [&] { y.noalias() = matrix * x; });
        timed("product", i > 0, [&] {
#pragma omp parallel
            multiply(parts[omp_get_thread_num()], x.data(), z.data());
        });
        timed("substitution", i > 0, [&] {
#pragma omp parallel
            substitute(parts[omp_get_thread_num()], x.data(), w.data());
        });
    }
    return (y - z).norm() <= 1e-9 * y.norm() ? 0 : 1;
}
