/** Shared by HTML pages that are neither API nor dashboard. No script runs in any of them. */
import { createHash } from 'node:crypto';

/** Escapes text between tags and in quoted attributes. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/**
 * Returns the Content-Security-Policy of a page with HTML of strangers: no scripts, no forms, framed by the dashboard
 * only.
 * @param sandbox `allow-same-origin` gives the page an origin
 * @param remote allows images, styles and fonts from other servers, which can then recognise the reader
 */
export function strangersPolicy(
  { remote }: { remote: boolean },
  sandbox: '' | 'allow-same-origin' = '',
): string {
  const loads = remote
    ? "img-src https: data:; font-src https:; style-src 'unsafe-inline' https:"
    : "img-src data:; style-src 'unsafe-inline'";
  const base = `sandbox ${sandbox}`.trim();
  return `${base}; default-src 'none'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'; ${loads}`;
}

/**
 * Returns the headers of a page that loads nothing and cannot be framed.
 * @param style content of the only style element
 * @param formAction targets of forms
 */
export function pageHeaders(style: string, formAction: "'none'" | "'self'") {
  const hash = createHash('sha256').update(style).digest('base64');
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy':
      `default-src 'none'; style-src 'sha256-${hash}'; form-action ${formAction}; ` +
      `base-uri 'none'; frame-ancestors 'none'`,
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  } as const;
}
