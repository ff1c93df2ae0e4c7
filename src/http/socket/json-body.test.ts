/**
 * JSON bodies are parsed as by JSON.parse, except that hostile nesting, names and characters are refused before they
 * cost anything.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { cpuMs } from '../../../test/support/cpu.ts';
import fc from 'fast-check';
import { BadRequest } from '../errors.ts';
import { parseJsonBody } from './json-body.ts';

function statusOf(body: string | Uint8Array): number {
  try {
    parseJsonBody(Buffer.from(body as string));
    return 200;
  } catch (error) {
    assert.ok(error instanceof BadRequest, String(error));
    return error.failure.status;
  }
}

test('any JSON is parsed as by JSON.parse', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.constantFrom(0, 2), (json, indent) => {
      const text = JSON.stringify(json, null, indent);
      // Refused texts have tests of their own below.
      fc.pre(!/__proto__|\\u(0000|d[89a-f])/i.test(text));
      assert.deepEqual(parseJsonBody(Buffer.from(text)), JSON.parse(text));
    }),
    { numRuns: 1_000 },
  );
});

test('an empty body is an empty object', () => {
  assert.deepEqual(parseJsonBody(Buffer.alloc(0)), {});
});

test('text that is not JSON or not UTF-8 is malformed', () => {
  for (const body of ['{', 'null x', "{'a':1}", '{"a":1,}', ' ', '"\t"', '{"a":1}}', '[1]]']) {
    assert.equal(statusOf(body), 400, body);
  }
  assert.equal(statusOf(Buffer.from([0x22, 0xff, 0x22])), 400);
  assert.equal(statusOf(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])), 400);
});

test('32 levels are allowed, 33 are not, and brackets in strings do not count', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  assert.equal(statusOf(nested(32)), 200);
  assert.equal(statusOf(nested(33)), 422);
  assert.equal(statusOf(JSON.stringify(`"\\${'[{'.repeat(100)}`)), 200);
  assert.equal(statusOf(`"\\\\",${nested(33)}`), 422);
});

test('a short body gets the same response as one whose every byte is examined', () => {
  const tokens = ['['.repeat(11), ']'.repeat(11), '[', ']', '{', '}', '"', '\\', '"a":', ',', '1'];
  const bodies = fc.array(fc.constantFrom(...tokens), { maxLength: 12 });
  const nested = fc.nat(40).map((depth) => ['['.repeat(depth), ']'.repeat(depth)]);
  const inString = fc
    .string()
    .map((text) => [JSON.stringify({ text: `${'{['.repeat(20)}${text}` })]);
  const statuses = new Set<number>();
  fc.assert(
    fc.property(fc.oneof(bodies, nested, inString), (parts) => {
      const body = parts.join('');
      const status = statusOf(body);
      statuses.add(status);
      // Trailing spaces are valid, and make the text too long for the short check.
      assert.equal(status, body === '' ? 200 : statusOf(body + ' '.repeat(50_000)), body);
    }),
    { numRuns: 2_000 },
  );
  assert.deepEqual(statuses, new Set([200, 400, 422]));
});

test('40 MB of brackets are refused in milliseconds, without being parsed', () => {
  const body = Buffer.alloc(40_000_000, '[');
  const tookMs = cpuMs(() => assert.equal(statusOf(body), 422));
  assert.ok(tookMs < 1_000, `${tookMs} ms`);
});

test('more members than any email has are refused', () => {
  assert.equal(statusOf(JSON.stringify(Array(50_000).fill(1))), 200);
  assert.equal(statusOf(JSON.stringify(Array(50_001).fill(1))), 422);
});

test('a NUL is refused in every place and notation', () => {
  assert.equal(statusOf('{"a":"x\0"}'), 422);
  assert.equal(statusOf(String.raw`{"a":{"b":["x\u0000"]}}`), 422);
  assert.equal(statusOf(String.raw`{"\u0000":1}`), 422);
  // A backslash and the letters u0000 are text.
  assert.equal(statusOf(String.raw`{"a":"\\u0000"}`), 200);
});

test('half of a surrogate pair is refused, an escaped emoji is not', () => {
  assert.equal(statusOf(String.raw`"\ud83d"`), 422);
  assert.equal(statusOf(String.raw`"\uDE00\ud83d"`), 422);
  assert.equal(statusOf(String.raw`"\ud83d\ude00"`), 200);
});

test('__proto__ is refused as a name in every notation, and allowed in text', () => {
  assert.equal(statusOf('{"a":{"__proto__":{"b":1}}}'), 422);
  assert.equal(statusOf(String.raw`{"\u005f_proto__":1}`), 422);
  assert.equal(statusOf('{"html":"__proto__"}'), 200);
});
