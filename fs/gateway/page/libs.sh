#!/usr/bin/env bash
# Puts the libraries of the web page into a folder, where make finds them: libs.sh FOLDER [PAGE_LIBS]
# They come from Debian's packages, or from PAGE_LIBS, a folder in which npm installed the versions below: those are taken
# only if their SHA-256 is as it stands here. A missing library is named, and the page works without it: Markdown, colours
# of code, or formulas are then shown as they were written.
set -euo pipefail
to=$1 from=${2:-}

debian='markdown-it libjs-markdown-it /usr/share/javascript/markdown-it/markdown-it.js
katex libjs-katex /usr/share/javascript/katex/katex.js
prism node-prismjs /usr/share/nodejs/prismjs/components'
npm='markdown-it markdown-it@15.0.3 dist/browser/markdown-it.umd.min.js 391f2aa638e75e6c7859d0a5c5650ef0956722a45998f17e05b83bc655778e1e
katex katex@0.19.1 dist/katex.js 8f4f4efac9e80863b0ef9946c004928ad3bd33bbbeabcc8531c605c82a1bb545
prism prismjs@1.30.0 components 1d1b55e428a374337b0178e81022ea02bbb9bb3f459818979634f7997a9d7452'

# Prism's parts as one file, in the order in which they need each other.
parts='core markup css clike javascript typescript c cpp csharp java go rust python ruby markup-templating php bash sql json yaml toml
	diff markdown makefile docker lua'

content() { # FILE, or the folder of Prism's parts
	local part
	if [ -f "$1" ]; then cat "$1"; return; fi
	for part in $parts; do cat "$1/prism-$part.js"; echo; done
}
missing=()
take() { # NAME PACKAGE FILE LICENCE
	rm -f "$to/$1.js"
	if [ ! -e "$3" ]; then missing+=("$1 ($2)"); return; fi
	content "$3" >"$to/$1.js"
	printf '==== %s ====\n\n' "$1" >>"$to/licences.txt"
	cat "$4" >>"$to/licences.txt"
}
mkdir -p "$to"
: >"$to/licences.txt"
if [ -z "$from" ]; then
	while read -r name package file; do take "$name" "$package" "$file" "/usr/share/doc/$package/copyright"; done <<<"$debian"
else
	while read -r name version file sum; do
		folder=$from/node_modules/${version%@*}
		take "$name" "$version" "$folder/$file" "$folder/LICENSE"
		if [ -e "$to/$name.js" ] && ! sha256sum --status -c <<<"$sum  $to/$name.js"; then
			echo "$folder/$file is not that of $version" >&2
			rm -f "$to/$name.js"
			exit 1
		fi
	done <<<"$npm"
fi
[ ${#missing[@]} -eq 0 ] || printf 'the web page is built without %s\n' "${missing[@]}" >&2
