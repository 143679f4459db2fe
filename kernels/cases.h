/* The cases of a switch that makes a count a constant, so that loops over it are unrolled and their
 * sums stay in registers: CASE(n) is what is done for n. Within kernels/ only. */
#ifndef MOEFS_KERNELS_CASES_H
#define MOEFS_KERNELS_CASES_H

#define CASES_TO_3(CASE) CASE(1) CASE(2) CASE(3)
#define CASES_TO_4(CASE) CASES_TO_3(CASE) CASE(4)
#define CASES_TO_6(CASE) CASES_TO_4(CASE) CASE(5) CASE(6)
#define CASES_TO_8(CASE) CASES_TO_6(CASE) CASE(7) CASE(8)
#define CASES_TO_12(CASE) CASES_TO_8(CASE) CASE(9) CASE(10) CASE(11) CASE(12)

#endif
