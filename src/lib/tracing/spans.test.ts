/** A `traceparent` is read by its grammar, and nothing happens without an SDK. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inSpan, isTracing, loadTracing, readTraceparent } from './spans.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';

test('a traceparent of version 00 with a trace and a span counts, and everything else is ignored', () => {
  const valid = `00-${TRACE}-${SPAN}-01`;
  assert.equal(readTraceparent(valid), valid);
  const ignored = [
    undefined,
    '',
    [valid, valid],
    `01-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `${valid}-more`,
    `${valid}\n`,
  ];
  for (const value of ignored) assert.equal(readTraceparent(value), null, String(value));
});

test('without an SDK nothing is loaded, and work runs without a span', async () => {
  await loadTracing('1.0.0');
  assert.equal(isTracing(), false);
  const options = { kind: 'client', attributes: {} } as const;
  assert.equal(await inSpan('a', options, async (span) => span), null);
});
