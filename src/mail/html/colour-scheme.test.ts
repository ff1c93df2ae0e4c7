/** Conditions on the colour scheme in stylesheets, for previews in light and dark. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inScheme } from './colour-scheme.ts';

test('conditions on the colour scheme become true or false, and others stay', () => {
  const html = `<!doctype html><style>@media (prefers-color-scheme: dark) and (min-width: 9px) {}
    @media (Prefers-Color-Scheme:light) {}</style><p>prefers-color-scheme</p>`;
  assert.equal(
    inScheme(html, 'dark'),
    `<!doctype html><style>@media (min-width: 0) and (min-width: 9px) {}
    @media (max-width: 0) {}</style><p>prefers-color-scheme</p><style>:root{color-scheme:only dark!important}</style>`,
  );
  assert.match(
    inScheme(html, 'light'),
    /@media \(max-width: 0\) and .*\n.*@media \(min-width: 0\) \{/,
  );
});
