/**
 * The pages behind links in emails, for recipients: a few sentences and at most one button. They have no script,
 * external resource or cookie, and no referrer that would disclose the link.
 */
import { pageHeaders } from './html-page.ts';

export type RecipientPage = {
  status: number;
  title: string;
  text: readonly string[];
  button?: { label: string; name: string; value: string; isQuiet?: true };
};

export const BAD_LINK_PAGE: RecipientPage = {
  status: 404,
  title: 'This link does not work',
  text: ['It may be incomplete. Please use the link in the email itself, or in a newer email.'],
};

const STYLE = `
:root{color-scheme:light dark;--ground:#f4f4f1;--card:#fff;--text:#1c1c1a;--soft:#5c5c57;
--line:#dcdcd5;--button:#1c1c1a;--on-button:#fff}
@media (prefers-color-scheme:dark){:root{--ground:#161615;--card:#20201e;--text:#f2f2ee;
--soft:#b0b0a8;--line:#3a3a36;--button:#f2f2ee;--on-button:#161615}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;min-height:100dvh;display:grid;place-items:center;padding:1.5rem;
background:var(--ground);color:var(--text);
font:1.0625rem/1.6 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{width:100%;max-width:28rem;padding:2.5rem 2rem;background:var(--card);
border:1px solid var(--line);border-radius:1rem;text-align:center;overflow-wrap:anywhere}
h1{margin:0 0 .75rem;font-size:1.5rem;line-height:1.3;text-wrap:balance}
p{margin:0;color:var(--soft);text-wrap:pretty}
strong{color:var(--text);font-weight:600}
form{margin:1.75rem 0 0}
button{min-height:3rem;padding:0 1.75rem;font:inherit;font-weight:600;cursor:pointer;
border:1px solid var(--button);border-radius:.625rem;background:var(--button);
color:var(--on-button)}
button:hover{opacity:.88}
button:focus-visible{outline:3px solid var(--soft);outline-offset:3px}
button.quiet{background:none;border-color:var(--line);color:var(--text)}
`;

/** Every page has these headers: its link must not leak by Referer, and it must not be indexed, framed or cached. */
export const PAGE_HEADERS = {
  ...pageHeaders(STYLE, "'self'"),
  'cache-control': 'no-store',
  'x-robots-tag': 'noindex, nofollow',
} as const;

export function renderPage({ title, text, button }: RecipientPage): string {
  const form = button === undefined ? '' : renderForm(button);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<title>${title}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${text.map((paragraph) => `<p>${paragraph}</p>`).join('\n')}
${form}</main>
</body>
</html>
`;
}

/** The form has no action, so it posts to the URL of the page behind any proxy. */
function renderForm({ label, name, value, isQuiet }: NonNullable<RecipientPage['button']>): string {
  const attributes = isQuiet === true ? ' class="quiet"' : '';
  return `<form method="post"><button${attributes} name="${name}" value="${value}">${label}</button></form>
`;
}
