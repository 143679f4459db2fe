/* The functions and kinds of files that the rows of the tree (tree/rows.c) name, by the file that
 * defines them. A render function appends the contents to `out`, and a set function applies a
 * value, both for the node given (struct tree_row in mount/node.h). */
#ifndef MOEFS_FS_FILES_FILES_H
#define MOEFS_FS_FILES_FILES_H

#include "fs/files/facts.h"
#include "fs/mount/node.h"

struct handle;

/* ---- values.c ---- */
extern const struct file_ops value_ops;	       /* values, tables, verbs */
extern const struct file_ops polled_value_ops; /* values that programs wait for with poll(2) */

/* ---- mount_files.c ---- */
extern const struct file_ops mount_ctl_ops;
void mount_readme_render(const struct node *n, struct text *out);
void mount_version_render(const struct node *n, struct text *out);
void mount_pid_render(const struct node *n, struct text *out);
void mount_kept_render(const struct node *n, struct text *out);
void mount_budget_render(const struct node *n, struct text *out);
int mount_budget_set(const struct node *n, const char *value, size_t length, struct err *e);
void mount_context_budget_render(const struct node *n, struct text *out);
int mount_context_budget_set(const struct node *n, const char *value, size_t length, struct err *e);
void mount_policy_render(const struct node *n, struct text *out);
int mount_policy_set(const struct node *n, const char *value, size_t length, struct err *e);
void mount_waiting_render(const struct node *n, struct text *out);
void mount_warming_render(const struct node *n, struct text *out);
void mount_gpu_budget_render(const struct node *n, struct text *out);
int mount_gpu_budget_set(const struct node *n, const char *value, size_t length, struct err *e);
void mount_gpu_stats_list(const struct node *n, struct facts *f);
void mount_cache_stats_list(const struct node *n, struct facts *f);

/* ---- error_files.c ---- */
void error_mount_render(const struct node *n, struct text *out);
void error_mount_json_render(const struct node *n, struct text *out);
void error_session_render(const struct node *n, struct text *out);
void error_session_json_render(const struct node *n, struct text *out);

/* ---- model_files.c ---- */
extern const struct row_family model_family;
extern const struct file_ops kernels_ops, config_ops;
void model_fact_render(const struct node *n, struct text *out);
void model_params_render(const struct node *n, struct text *out);
void model_examples_render(const struct node *n, struct text *out); /* row.fact: an enum model_fact */
extern const struct row_family tensor_family;
extern const struct file_ops tensor_ops;
extern const struct row_hooks tensor_hooks;
bool model_tensors_are_listed(const struct node *folder);
int model_tensors_list(const struct node *folder, struct err *e);

/* ---- expert_files.c, expert_ctl.c, trace.c ---- */
enum { LAYER_DIGITS = 2, EXPERT_DIGITS = 3 }; /* least digits in their names */
/* Reads a number in exactly the form in which the tree prints it. */
bool expert_number(const char *name, int digits, uint32_t below, uint32_t *number);
extern const struct row_family expert_layer_family, expert_family;
extern const struct file_ops expert_ops, expert_ctl_ops, trace_ops;
extern const struct row_hooks expert_hooks, expert_layer_hooks, expert_model_hooks;
void expert_map_render(const struct node *n, struct text *out);
void expert_picture_render(const struct node *n, struct text *out);
/* expert_uses: hits and misses. expert_most_used: those of the model's most used expert, at least 1.
 * expert_heat: the step of an expert with `used` uses: 9 for the most used, one less for each
 * halving, at least 0. */
uint64_t expert_uses(const struct model_expert *x);
uint64_t expert_most_used(const struct model *m);
unsigned expert_heat(uint64_t used, uint64_t most);
void expert_stats_list(const struct node *n, struct facts *f);

/* ---- prefix_files.c ---- */
extern const struct row_family prefix_family;
extern const struct row_hooks prefix_hooks;
void prefix_render(const struct node *n, struct text *out);

/* ---- question.c ---- */
extern const struct file_ops question_ops;
extern const struct question ask_question, score_question, encode_question, decode_question;
extern const struct question embed_question, embed_array_question;
/* At the mount's end: wakes the calls that wait for a worker's answer, and stops the worker. */
void question_give_up(struct handle *h);

/* ---- prompt.c, output.c, ask_d.c, ctl.c, state_files.c ---- */
extern const struct file_ops prompt_ops, output_ops, ask_d_ops, ctl_ops, state_ops, plan_ops;
extern const struct file_ops output_wait_ops, output_log_ops;
extern const struct row_family ask_family, embed_family;
void prompt_render(const struct node *n, struct text *out);

/* ---- session_files.c ---- */
extern const struct row_family session_family;
void session_status_render(const struct node *n, struct text *out);
void session_stats_list(const struct node *n, struct facts *f);

/* ---- param_files.c ---- */
extern const struct row_family value_param_family, text_param_family;
extern const struct file_ops value_param_ops, text_param_ops;
void param_render(const struct node *n, struct text *out);
int param_set(const struct node *n, const char *value, size_t length, struct err *e);

/* ---- conversation_files.c; row.fact: an enum session_text ---- */
/* Most bytes of assembled texts. */
enum { CONVERSATION_TEXT_MOST = 64 << 20, CHOICES_TEXT_MOST = 4 << 20 };
extern const struct file_ops conversation_text_ops, tool_calls_ops, tool_result_ops, rendered_ops;
void conversation_text_render(const struct node *n, struct text *out);
uint64_t conversation_text_size(const struct node *n);
int conversation_text_set(const struct node *n, const char *value, size_t length, struct err *e);

#endif
