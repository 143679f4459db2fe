#!/bin/bash
# TLS or keys that moefs-http was asked for and cannot use: it says why and never starts without them.
. "$(dirname "$0")/lib.sh"
command -v curl >/dev/null || skip_all "curl is missing"
command -v openssl >/dev/null || skip_all "openssl is missing"
http=${MOEFS_HTTP:-$(dirname "$MOEFS")/moefs-http}
mounted

certificate() { # NAME: NAME.pem and NAME.key
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/$1.key" -out "$work/$1.pem" -subj /CN=localhost -days 2 2>/dev/null
}
certificate one
certificate other
cd "$work" || exit 1
: >empty
mkdir folder
printf 'no certificate\n' >words
head -c 300 one.pem >cut
{ cat one.pem && head -c 1048576 /dev/zero | tr '\0' '\n'; } >large
openssl x509 -in one.pem -outform DER -out binary
openssl pkey -in one.key -aes256 -passout pass:secret -out encrypted
openssl rsa -in one.key -traditional -aes256 -passout pass:secret -out encrypted_before 2>/dev/null

# A gateway that starts nevertheless is ended by timeout, whose status is 124.
refuses() { # WORDS OPTIONS
	local said status
	said=$(LC_ALL=C timeout $limit "$http" -o "listen=127.0.0.1:0,$2" "$mnt" 2>&1)
	status=$?
	same "$status" 1 "$2: $said"
	case $said in *"$1"*) ;; *) fail "$2: said '$said', not '$1'" ;; esac
}
each_refused() { # as a certificate and as a key
	refuses "$2" "cert=$1,key=one.key"
	refuses "$2" "cert=one.pem,key=$1"
}
claim "an empty certificate or key is refused" each_refused empty "empty is empty"
claim "one that is not there is refused" each_refused none "none cannot be read: No such file"
claim "a folder in its place is refused" each_refused folder "folder cannot be read: Is a directory"
claim "one that cannot be read is refused" each_refused /proc/self/mem "/proc/self/mem cannot be read: Input/output error"
claim "one that is not PEM is refused" each_refused words "words is not PEM"
claim "one in binary form is refused" each_refused binary "binary is not PEM"
claim "one that was cut short is refused" each_refused cut "cut"
claim "one larger than 1 MiB is refused, not cut" each_refused large "large is larger than 1 MiB"
encrypted() { # in the form of today and in the one before
	refuses "encrypted is encrypted" "cert=one.pem,key=encrypted"
	refuses "encrypted_before is encrypted" "cert=one.pem,key=encrypted_before"
}
claim "an encrypted key is refused, with the command that decrypts it" encrypted
pairs() {
	refuses "both cert= and key=" "cert=one.pem"
	refuses "both cert= and key=" "key=one.key"
	refuses " cannot be read" "cert=,key="
	refuses "are one.pem and other.key a certificate and its key" "cert=one.pem,key=other.key"
}
claim "a certificate without its own key is refused" pairs

both() {
	same "$(curl -sS --max-time $limit --cacert one.pem -o /dev/null -w '%{http_code}' "https://localhost:${url##*:}/v1/models")" 200
	not curl -sS --max-time $limit -o /dev/null "http://localhost:${url##*:}/v1/models" || fail "it is served without TLS"
}
gateway -o cert=one.pem,key=one.key
claim "a certificate and its key: TLS and nothing else is spoken" both
gateway_over

keys() {
	chmod 600 empty words
	printf '# no key\n\n' >comments && chmod 600 comments
	refuses "empty has no key" key_file=empty
	refuses "comments has no key" key_file=comments
	refuses "none cannot be read: No such file" key_file=none
	refuses " cannot be read" key_file=
	chmod 700 folder
	refuses "folder cannot be read: Is a directory" key_file=folder
	refuses "/proc/self/mem cannot be read: Input/output error" key_file=/proc/self/mem
}
odd_keys() { # each file is refused as a whole: a key that was cut could be guessed
	key_file() { (umask 077 && printf "$1" >odd); }
	key_file 'secret\0rest\n' && refuses "the key in line 1 has a control character" key_file=odd
	key_file '# keys\nfine\nsecret\rrest\n' && refuses "the key in line 3 has a control character" key_file=odd
	key_file '\0\n' && refuses "the key in line 1 has a control character" key_file=odd
	key_file "$(printf %256s | tr ' ' x)\n" && refuses "at most 255 keys of at most 255 bytes" key_file=odd
	key_file "#$(printf %4096s | tr ' ' x)\n" && refuses "line 1 has more than 4095 bytes" key_file=odd
}
claim "a key that no client can send is refused, and none is cut" odd_keys
claim "an empty or unreadable file of keys never means that no key is needed" keys
finish
