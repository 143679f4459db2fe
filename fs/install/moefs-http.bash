# bash completion for moefs-http: options, their values, and folders.
_moefs_http() {
	local cur=${COMP_WORDS[COMP_CWORD]} line=${COMP_LINE:0:COMP_POINT} option
	local word=${line##* } before=${line% *}
	[[ $cur == = ]] && cur=
	if [[ $before == *" -o" ]]; then
		option=${word##*,}
		case $option in
		cert=* | key=* | key_file=*) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		listen=*) mapfile -t COMPREPLY < <(compgen -W "127.0.0.1:11435 unix:" -- "$cur") ;;
		*)
			mapfile -t COMPREPLY < <(compgen -P "${cur%"$option"}" -W "listen= cert= key= key_file= host= cors= ignore_line= \
				active= queue= keep= connections= body= timeout= poll= log_prompts" -- "$option")
			compopt -o nospace
			;;
		esac
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "-v -h --help -V --version -o" -- "$cur")
	else
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		compopt -o filenames
	fi
}
complete -F _moefs_http moefs-http
