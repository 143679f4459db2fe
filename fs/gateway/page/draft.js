// What stands in the question's box belongs to its conversation and survives a reload: in this tab alone, since whoever
// gets this address later could read what a browser keeps for longer.
import { $, fit } from "./frame.js";
import { typing } from "./files.js";

let place = "";
const key = (session) => `draft ${session}`;

export function keep() {
	if ($("prompt").value) sessionStorage.setItem(key(place), $("prompt").value);
	else sessionStorage.removeItem(key(place));
}

// Shows the draft of this conversation.
export function show(session) {
	place = session;
	$("prompt").value = sessionStorage.getItem(key(session)) ?? "";
	fit();
}

export function set(text) {
	$("prompt").value = text;
	keep();
	fit();
	typing();
}
$("prompt").addEventListener("input", keep);
