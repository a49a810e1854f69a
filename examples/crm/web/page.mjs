// Change a line here, `npx exclave release examples/crm --channel stable`, and reload the page.
const ACCENT = "#2f6f4e";
const EDITION = "First edition";

export function page({ title, banner, assets, install }) {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title)}</title>
<style>
  :root { --accent: ${ACCENT}; color-scheme: light dark; }
  * { box-sizing: border-box; }
  body { margin: 0; font: 16px/1.5 system-ui, sans-serif; background: light-dark(#f6f5f1, #16181a); }
  header { background: var(--accent); color: #fff; padding: 2.5rem max(1.5rem, calc(50% - 22rem)); }
  header h1 { margin: 0; font-size: 1.9rem; letter-spacing: -0.02em; }
  header p { margin: 0.25rem 0 0; opacity: 0.85; }
  main { max-width: 47rem; margin: 0 auto; padding: 1.5rem; }
  section { background: light-dark(#fff, #202326); border-radius: 12px; padding: 1.25rem 1.5rem; margin-bottom: 1.25rem;
            box-shadow: 0 1px 3px rgb(0 0 0 / 12%); }
  h2 { margin: 0 0 0.75rem; font-size: 1rem; }
  table { width: 100%; border-collapse: collapse; }
  td { padding: 0.45rem 0; border-top: 1px solid light-dark(#eceae4, #33373b); }
  td:last-child, .total { text-align: right; font-variant-numeric: tabular-nums; }
  .total { font-weight: 600; margin: 0.75rem 0 0; }
  form { display: flex; flex-wrap: wrap; gap: 0.6rem; }
  input { flex: 1 1 9rem; min-width: 0; padding: 0.55rem 0.7rem; font: inherit; border: 1px solid light-dark(#d6d3ca, #454a4f);
          border-radius: 8px; background: transparent; color: inherit; }
  button { padding: 0.55rem 1.1rem; font: inherit; font-weight: 600; color: #fff; background: var(--accent); border: 0;
           border-radius: 8px; cursor: pointer; }
  pre { margin: 0; overflow-x: auto; color: var(--accent); line-height: 1.2; }
  footer { color: light-dark(#6d6a62, #9a9ea3); font-size: 0.85rem; overflow-wrap: anywhere; }
  [role="status"] { min-height: 1.5em; margin: 0.5rem 0 0; }
</style>
<header>
  <h1>${escape(title)}</h1>
  <p>${escape(EDITION)}, running in ${escape(install)}'s own account</p>
</header>
<main>
  <section>
    <h2>Contacts</h2>
    <table><tbody id="contacts"></tbody></table>
    <p class="total" id="total"></p>
  </section>
  <section>
    <h2>Add one</h2>
    <form id="add">
      <input name="name" placeholder="Name" aria-label="Name" required maxlength="80">
      <input name="deal" placeholder="Deal" aria-label="Deal" type="number" min="0" step="1" required>
      <button>Add</button>
    </form>
    <p role="status" id="status"></p>
  </section>
  <section><pre>${escape(banner)}</pre></section>
  <footer>Assets ${escape(assets)}</footer>
</main>
<script type="module">
  const status = document.querySelector("#status");
  const form = document.querySelector("#add");

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const contact = Object.fromEntries(new FormData(form));
    const answer = await fetch("/contacts", { method: "POST", body: JSON.stringify(contact) });
    status.textContent = answer.ok ? "Added." : (await answer.json()).error;
    if (answer.ok) form.reset();
    await show();
  });

  async function show() {
    const { contacts = [], total = 0, currency = "EUR" } = await (await fetch("/contacts")).json();
    const money = new Intl.NumberFormat(undefined, { style: "currency", currency, maximumFractionDigits: 0 });
    const rows = contacts.map(({ name, deal }) => row(name, money.format(deal)));
    document.querySelector("#contacts").replaceChildren(...(rows.length ? rows : [row("Nobody yet.", "")]));
    document.querySelector("#total").textContent = contacts.length ? money.format(total) : "";
  }

  function row(...cells) {
    const tr = document.createElement("tr");
    for (const text of cells) tr.insertCell().textContent = text;
    return tr;
  }

  show();
</script>
</html>
`;
}

function escape(text = "") {
  return String(text).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
