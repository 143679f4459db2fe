#!/usr/bin/env bash
# `make check-boot`: a small Debian is made and booted in a container, with the package of `make deb` in it. There the
# system's automount mounts when somebody looks, a user's own unit answers and stops, and nothing has failed. Not part
# of `make check`: it needs root, mmdebstrap, systemd-nspawn and Debian's packages, and says so where it cannot be.
set -u
cd "$(dirname "$0")/../.." || exit 1

skip() { echo "ok the units in a booted system # skip: $1"; exit 0; }
[ "$(id -u)" = 0 ] || skip "only root can boot a container"
for program in mmdebstrap systemd-nspawn dpkg-deb; do
	command -v $program >/dev/null || skip "$program is missing"
done
package=$(ls build/moefs_*.deb 2>/dev/null) || skip "there is no package; run make deb"
work=$(mktemp -d "${TMPDIR:-/tmp}/moefs-boot.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
needs=$(dpkg-deb -f "$package" Depends | sed 's/([^)]*)//g; s/ *, */,/g; s/ //g')
timeout 900 mmdebstrap --variant=minbase --include="systemd,systemd-sysv,dbus,libpam-systemd,procps,$needs" \
	"$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$root" >"$work/made" 2>&1 ||
	skip "no Debian is to be had: $(tail -n 1 "$work/made")"

cp "$package" "$root/moefs.deb"
mkdir -p "$root"/srv/{checkpoints,models} "$root"/home/you/{m,.config/moefs}
cp -r examples/models/fable-moe-15m "$root/srv/checkpoints/"
cp -r examples/models/fable-moe-15m "$root/home/you/"
cp fs/install/systemd/srv-models.* "$root/etc/systemd/system/"
echo user_allow_other >>"$root/etc/fuse.conf"
printf 'MODELS=%s\nMOUNTPOINT=%s\nOPTIONS=temperature=0\n' /home/you/fable-moe-15m /home/you/m >"$root/home/you/.config/moefs/fable.conf"
cat >"$root/try" <<'END'
#!/bin/bash
exec >/said 2>&1
chmod 666 /dev/fuse
say() { echo "$1: $(eval "$2" 2>&1 | tr '\n' ' ')"; }
say waiting "systemctl is-active srv-models.automount srv-models.mount"
say looked "timeout 300 ls /srv/models"
say answered "cd /srv/models/fable-moe-15m && su you -c 'mkdir sessions/mine; echo 0 > sessions/mine/params/temperature
	echo What is the capital of France? > sessions/mine/prompt; timeout 300 cat sessions/mine/output'"
say daemon "ps -o user= -C mount.moefs"
say stopped "systemctl stop srv-models.mount 2>/dev/null; systemctl is-active srv-models.mount srv-models.automount"
loginctl enable-linger you
user() { su you -c "XDG_RUNTIME_DIR=/run/user/$(id -u you) $*"; }
for i in $(seq 3000); do user systemctl --user is-system-running >/dev/null 2>&1 && break; sleep 0.1; done
user systemctl --user enable --now moefs@fable
say unit "user systemctl --user is-active moefs@fable"
say asked "user 'echo What is 12 x 6? > /home/you/m/fable-moe-15m/prompt; timeout 300 cat /home/you/m/fable-moe-15m/output'"
say ended "user systemctl --user stop moefs@fable; user systemctl --user is-active moefs@fable; grep -c /home/you/m /proc/self/mountinfo"
say failed "systemctl --failed --no-legend --no-pager"
systemctl poweroff
END
chmod +x "$root/try"
printf '[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=/try\n[Install]\nWantedBy=multi-user.target\n' >"$root/etc/systemd/system/try.service"
chroot "$root" sh -ec 'dpkg -i /moefs.deb; useradd --system --home-dir /var/lib/moefs --create-home moefs; useradd you
	chown -R you:you /home/you; systemctl enable srv-models.automount try.service' >"$work/installed" 2>&1 ||
	{ echo "not ok the package installs: $(tail -n 2 "$work/installed" | tr '\n' ' ')"; exit 1; }

devices=(--bind=/dev/fuse)
number=$(awk '$2 == "autofs" { print $1 }' /proc/misc)
[ -e /dev/autofs ] || { [ -n "$number" ] && mknod "$work/autofs" c 10 "$number"; } || skip "the kernel has no autofs"
devices+=(--bind="$([ -e /dev/autofs ] && echo /dev/autofs || echo "$work/autofs"):/dev/autofs")
timeout 900 systemd-nspawn -q -D "$root" --register=no --keep-unit "${devices[@]}" --capability=all \
	--property=DeviceAllow='/dev/fuse rwm' -b >"$work/boot" 2>&1 </dev/null
[ -s "$root/said" ] || skip "a container cannot be booted here: $(tail -n 1 "$work/boot")"

failed=0
says() { # WHAT LINE
	if grep -qxF -- "$2" "$root/said"; then
		echo "ok $1"
	else
		echo "not ok $1: $(grep "^${2%%:*}:" "$root/said")"
		failed=1
	fi
}
says "the automount waits" "waiting: active inactive "
says "looking mounts" "looked: README cache ctl error fable-moe-15m pid version "
says "another user is answered there" "answered: The capital of France is Paris. "
says "its daemon is the user of uid=" "daemon: moefs "
says "it is unmounted, and waits again" "stopped: inactive active "
says "a user's unit is started when it answers" "unit: active "
says "it has answered" "asked: 12 x 6 = 72 "
says "and leaves nothing" "ended: inactive 0 "
says "no unit has failed" "failed: "
exit $failed
