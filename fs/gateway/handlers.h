/* What routes call, each in a file of its own. A handler answers once, by a reply_ function. */
#ifndef MOEFS_FS_GATEWAY_HANDLERS_H
#define MOEFS_FS_GATEWAY_HANDLERS_H

#include "fs/gateway/request.h"

enum MHD_Result models_list(struct request *r);
enum MHD_Result models_one(struct request *r);
enum MHD_Result chat_completions(struct request *r);
enum MHD_Result anthropic_create(struct request *r);
enum MHD_Result anthropic_count(struct request *r);
enum MHD_Result responses_create(struct request *r);
enum MHD_Result responses_count(struct request *r);
enum MHD_Result responses_other(struct request *r);
enum MHD_Result responses_get(struct request *r);
enum MHD_Result responses_delete(struct request *r);
enum MHD_Result completions(struct request *r);
enum MHD_Result tokenize(struct request *r);
enum MHD_Result detokenize(struct request *r);
enum MHD_Result health(struct request *r);
enum MHD_Result metrics(struct request *r);
enum MHD_Result page_get(struct request *r);
enum MHD_Result files_get(struct request *r);
enum MHD_Result files_put(struct request *r);
enum MHD_Result files_make(struct request *r);
enum MHD_Result files_remove(struct request *r);

#endif
