/* What moefs-http --help prints: the list of its options, of which completion is made, too. */
#ifndef MOEFS_FS_GATEWAY_OPTIONS_HELP_H
#define MOEFS_FS_GATEWAY_OPTIONS_HELP_H

extern const char http_options_help[];

#endif
