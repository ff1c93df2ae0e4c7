/** Tokens of tracked links cannot be forged or turned into open redirects. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { TARGET_MAX_LENGTH, targetOf, parseTracking, TrackingTokens } from './tracking-link.ts';

const SECRET = Buffer.alloc(32, 1);
const tokens = new TrackingTokens([SECRET]);

const who = {
  projectId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa',
  environment: 'live' as const,
  emailId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21ab',
  position: 49,
};
const TARGET = 'https://shop.acme.com/a?b=c&d=%20#e';

test('a token names its recipient and its target, and is the same at every attempt', () => {
  for (const target of [TARGET, null]) {
    const token = tokens.make(who, target);
    assert.deepEqual(tokens.read(token), { ...who, target });
    assert.equal(tokens.make({ ...who }, target), token);
    assert.match(token, /^[\w-]+$/);
  }
  const other = { ...who, environment: 'test' as const, position: 0 };
  assert.deepEqual(tokens.read(tokens.make(other, TARGET)), { ...other, target: TARGET });
});

test('a changed, shortened or foreign token is invalid', () => {
  const token = tokens.make(who, TARGET);
  assert.equal(new TrackingTokens([Buffer.alloc(32, 2)]).read(token), null);
  for (const wrong of ['', 'x', `${token}A`, `${token}=`, token.slice(0, -1), ` ${token}`]) {
    assert.equal(tokens.read(wrong), null, wrong);
  }
  const bytes = Buffer.from(token, 'base64url');
  fc.assert(
    fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
      const changed = Buffer.from(bytes);
      changed[at] = changed[at]! ^ change;
      assert.equal(tokens.read(changed.toString('base64url')), null);
    }),
  );
});

test('links of a former secret are valid while that secret is kept', () => {
  const token = tokens.make(who, TARGET);
  const rotated = new TrackingTokens([Buffer.alloc(32, 2), SECRET]);
  assert.equal(rotated.read(token)?.target, TARGET);
  assert.notEqual(rotated.make(who, TARGET), token);
});

/** Returns a token with a valid signature for any content. */
function signed(content: Buffer): string {
  const mac = createHmac('sha256', SECRET).update(content).digest().subarray(0, 16);
  return Buffer.concat([mac, content]).toString('base64url');
}

test('a target that is not http or https is never redirected to, not even with a valid signature', () => {
  const head = Buffer.from(tokens.make(who, null), 'base64url').subarray(16);
  const tokenFor = (target: string) => signed(Buffer.concat([head, Buffer.from(target)]));
  assert.equal(tokens.read(tokenFor(TARGET))?.target, TARGET);
  const wrong = ['javascript:alert(1)', 'data:text/html,x', 'file:///etc', '//evil.test', 'x'];
  const broken = ['https://a.test/\r\nSet-Cookie: a=b', 'https://a.test', ' https://a.test/'];
  for (const target of [...wrong, ...broken]) {
    assert.equal(tokens.read(tokenFor(target)), null, target);
    assert.throws(() => tokens.make(who, target), /not a target/, target);
  }
});

test('a target is the URL that a browser would open, and other kinds of links have none', () => {
  const long = `https://a.test/${'x'.repeat(TARGET_MAX_LENGTH)}`;
  const cases: [string, string | null][] = [
    [' HTTPS://Grüße.example/ä b?q=ü#x\n', 'https://xn--gre-6ka8l.example/%C3%A4%20b?q=%C3%BC#x'],
    ['http://a.test', 'http://a.test/'],
    ['https://a.test/x\ny', 'https://a.test/xy'],
    ['mailto:jo@a.test', null],
    ['tel:+49123', null],
    ['#top', null],
    ['/path', null],
    ['//a.test/x', null],
    ['javascript:alert(1)', null],
    ['java\nscript:alert(1)', null],
    ['data:text/html,x', null],
    ['https://', null],
    ['https://{{ url }}', null],
    ['', null],
    [long, null],
  ];
  for (const [href, target] of cases) assert.equal(targetOf(href), target, href);
});

test('the stored form records what is tracked', () => {
  const base = 'https://links.acme.com:8443/x';
  const both = { opens: true, clicks: true, base };
  assert.deepEqual(parseTracking(`opens+clicks:${base}`), both);
  assert.deepEqual(parseTracking(`opens:${base}`), { ...both, clicks: false });
  assert.deepEqual(parseTracking(`clicks:${base}`), { ...both, opens: false });
  assert.deepEqual(parseTracking(null), { opens: false, clicks: false, base: null });
});
