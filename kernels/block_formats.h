/* The formats of matrices of blocks, each of which has functions of its own in every table. */
#ifndef MOEFS_KERNELS_BLOCK_FORMATS_H
#define MOEFS_KERNELS_BLOCK_FORMATS_H

/* DO(name in functions, format) */
#define BLOCK_FORMATS(DO)                 \
	DO(q8_0, FORMAT_Q8_0)             \
	DO(q4_0, FORMAT_Q4_0)             \
	DO(q4_1, FORMAT_Q4_1)             \
	DO(q5_0, FORMAT_Q5_0)             \
	DO(q5_1, FORMAT_Q5_1)             \
	DO(q2_k, FORMAT_Q2_K)             \
	DO(q3_k, FORMAT_Q3_K)             \
	DO(q4_k, FORMAT_Q4_K)             \
	DO(q5_k, FORMAT_Q5_K)             \
	DO(q6_k, FORMAT_Q6_K)             \
	DO(iq4_nl, FORMAT_IQ4_NL)         \
	DO(iq4_xs, FORMAT_IQ4_XS)         \
	DO(iq3_s, FORMAT_IQ3_S)           \
	DO(mxfp4_gguf, FORMAT_MXFP4_GGUF) \
	DO(mxfp4, FORMAT_MXFP4)           \
	DO(affine2, FORMAT_AFFINE2)       \
	DO(affine3, FORMAT_AFFINE3)       \
	DO(affine4, FORMAT_AFFINE4)       \
	DO(affine5, FORMAT_AFFINE5)       \
	DO(affine6, FORMAT_AFFINE6)       \
	DO(affine8, FORMAT_AFFINE8)

#endif
