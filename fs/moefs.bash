# bash completion for moefs: options, their values, directories, and GGUF files.
_moefs() {
	local cur=${COMP_WORDS[COMP_CWORD]} line=${COMP_LINE:0:COMP_POINT} option
	local word=${line##* } before=${line% *}
	[[ $cur == = ]] && cur= # readline ends a word at "="
	if [[ $before == *" -o" ]]; then
		option=${word##*,}
		case $option in
		quant=*) mapfile -t COMPREPLY < <(compgen -W "auto tq2 tq3 tq4 bf16" -- "$cur") ;;
		budget=* | context_budget=* | context=* | threads=* | chunk=*)
			mapfile -t COMPREPLY < <(compgen -W "auto" -- "$cur")
			;;
		idle=*) mapfile -t COMPREPLY < <(compgen -W "auto off 10m 1h" -- "$cur") ;;
		codec=*) mapfile -t COMPREPLY < <(compgen -W "auto none zstd" -- "$cur") ;;
		template=*) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		log=*) mapfile -t COMPREPLY < <(compgen -W journal -- "$cur"; compgen -f -- "$cur") ;;
		uid=*) mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
		gid=*) mapfile -t COMPREPLY < <(compgen -g -- "$cur") ;;
		store=*) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
		*)
			mapfile -t COMPREPLY < <(compgen -P "${cur%"$option"}" -W "quant= exact codec= budget= context_budget= \
				context= store= template= threads= chunk= idle= allow_other name= fsname= log= uid= gid= umask= PARAM=VALUE" -- "$option")
			compopt -o nospace
			;;
		esac
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "-f -v -d -h --help -V --version --check -o" -- "$cur")
	elif [[ $before == *" umount" ]]; then
		mapfile -t COMPREPLY < <(compgen -W "-z $(moefs list 2>/dev/null | cut -f 1)" -- "$cur")
	elif [[ $before == *" list" ]]; then
		mapfile -t COMPREPLY < <(compgen -W --json -- "$cur")
	else
		mapfile -t COMPREPLY < <([[ $COMP_CWORD == 1 && -n $cur ]] && compgen -W "list umount" -- "$cur"
			compgen -d -- "$cur"; compgen -f -X '!*.gguf' -- "$cur")
		compopt -o filenames
	fi
}
complete -F _moefs moefs
