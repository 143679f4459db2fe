// Every action by key, in one table, which `?` shows. Keys with Alt are told by their place on the keyboard, since some
// systems type other characters with it.
import { $, doing } from "./frame.js";
import { element } from "./talk.js";

const press = (button) => button && !button.disabled && !button.hidden && button.click();
const QUESTION = "li.user", ANSWER = "li:not(.user)";
const last = (which, name) => press([...document.querySelectorAll(`#messages > ${which}`)].at(-1)?.querySelector(`.tools [data-act="${name}"]`));

// Another conversation of the list.
function step(by) {
	const all = [...document.querySelectorAll("#sessions a")], at = all.findIndex((a) => a.getAttribute("aria-current"));
	all.at(at < 0 ? (by > 0 ? 0 : -1) : Math.min(all.length - 1, Math.max(0, at + by)))?.click();
}
function act(name) {
	const menu = document.querySelector('#sessions a[aria-current="page"] + .menu');
	press([...(menu?.querySelectorAll("button") ?? [])].find((b) => b.textContent === name));
}

// [keys, what they do, how]; of those without a function the browser or the field takes care.
const table = [
	["Enter", "Ask"],
	["Shift+Enter", "A new line in the question"],
	["Escape", "Stop the answer; close what is open"],
	["/", "Go to the question", () => $("prompt").focus()],
	["Alt+N", "New conversation", () => press($("new"))],
	["Alt+ArrowUp", "The conversation above in the list", () => step(-1)],
	["Alt+ArrowDown", "The conversation below", () => step(1)],
	["Alt+S", "Search in all conversations", () => (press($("menu").getAttribute("aria-expanded") === "false" && $("menu")), $("search").focus())],
	["Alt+F", "Attach text files", () => press($("attach"))],
	["Alt+E", "Edit the last question", () => last(QUESTION, "Edit")],
	["Alt+A", "Ask the last question again", () => last(ANSWER, "Again")],
	["Alt+G", "Continue the last answer", () => last(ANSWER, "Continue")],
	["Alt+C", "Copy the last answer", () => last(ANSWER, "Copy")],
	["Alt+R", "The last answer as it was written", () => last(ANSWER, "Raw")],
	["Alt+T", "The last answer token by token", () => last(ANSWER, "Tokens")],
	["Alt+J", "Rename this conversation", () => act("Rename")],
	["Alt+K", "Save it as Markdown", () => act("Save as Markdown")],
	["Alt+O", "Save it as JSON", () => act("Save as JSON")],
	["Alt+U", "Save its state, with what was computed", () => act("Save its state")],
	["Alt+I", "Import one", () => press($("import"))],
	["Alt+Y", "Copy its path", () => act("Copy its path")],
	["Alt+X", "Remove it", () => act("Remove")],
	["Alt+Z", "Take the last removal back", () => press($("undo").lastElementChild?.querySelector("button"))],
	["Alt+M", "Choose the model", () => $("model").focus()],
	["Alt+L", "Show or hide the conversations", () => press($("menu"))],
	["Alt+P", "Show or hide experts and params", () => press($("facts"))],
	["Alt+D", "Light, dark, or as the system has it", () => press($("theme"))],
	["?", "This list", () => ($("keys").open ? $("keys").close() : $("keys").showModal())],
];
const code = (key) => (/^[A-Z]$/.test(key) ? "Key" + key : key);

addEventListener("keydown", (e) => {
	const typing = e.target.closest?.("input,textarea,select");
	if (e.ctrlKey || e.metaKey || e.isComposing || (typing && !e.altKey)) return;
	const row = table.find(([keys, , run]) => run && (e.altKey ? keys.startsWith("Alt+") && code(keys.slice(4)) === e.code : keys === e.key));
	if (!row || ($("locked").open && row[0] !== "?")) return;
	e.preventDefault();
	doing(row[2])();
});

$("keys-list").append(...table.map(([keys, what]) => element("tr", {}, element("th", { scope: "row" }, element("kbd", {}, keys.replace("Arrow", ""))), element("td", {}, what))));
$("help-keys").addEventListener("click", () => $("keys").showModal());
$("keys").addEventListener("click", (e) => e.target === $("keys") && $("keys").close());
