// Products of Eigen's sparse matrix with a vector, for benches/apps.rs. Reads a matrix by rows (number of rows, number
// of nonzeros, starts, columns, values; all of 64 bits, but the columns of 32 bits) and prints the seconds of each
// product.
#include <Eigen/Sparse>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

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
    Eigen::VectorXd x = Eigen::VectorXd::Ones(size[0]), y(size[0]);
    for (int i = 0; i <= std::atoi(words[2]); i++) {
        auto begun = std::chrono::steady_clock::now();
        y.noalias() = matrix * x;
        std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
        // The first product is a warm-up.
        if (i > 0) std::printf("%.9f\n", took.count());
    }
    return y.norm() >= 0 ? 0 : 1;
}
