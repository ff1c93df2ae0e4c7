/** The MX and SPF records of a return path, with the mistakes that people make. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareMx } from './compare-mx.ts';
import { compareSpf } from './compare-spf.ts';
import { problemText } from './record-comparison.ts';

const HOST = 'mail.letterhaus.example';
const SPF = 'v=spf1 ip4:8.8.8.8 ~all';

const mxRecords = (texts: readonly string[]) =>
  texts.map((text) => {
    const [preference, exchange = ''] = text.split(' ');
    return { preference: Number(preference), exchange };
  });

const MX_MISTAKES: Record<string, [string[], RegExp]> = {
  elsewhere: [['10 mx.other.example'], /points to mx\.other\.example instead of mail\.letterhaus/],
  'to a name with the zone appended': [
    [`10 ${HOST}.acme.com`],
    /appended the zone name, so end the value with a dot: "mail\.letterhaus\.example\."/,
  ],
  'to an address': [['10 8.8.8.8'], /holds an address \(8\.8\.8\.8\)/],
  nowhere: [['0 .'], /accepts no mail/],
  'elsewhere first': [
    [`10 ${HOST}`, '5 mx.other.example'],
    /mx\.other\.example has the same or a better/,
  ],
  'elsewhere as well': [[`10 ${HOST}`, '10 mx.other.example'], /better priority than ours/],
};

for (const [where, [records, said]] of Object.entries(MX_MISTAKES)) {
  test(`a return path whose MX points ${where} is reported as such`, () => {
    const { status, problem } = compareMx([HOST], mxRecords(records), [
      'news.acme.com',
      'acme.com',
    ]);
    assert.equal(status, 'mismatch');
    assert.match(problemText(problem) ?? '', said);
  });
}

test('any MX priority is accepted, with backup servers behind', () => {
  const records = mxRecords([`20 ${HOST}`, '30 spare.other.example']);
  assert.deepEqual(compareMx([HOST], records, []), { status: 'verified', problem: null });
});

const SPF_MISTAKES: Record<string, [string[], RegExp]> = {
  'names somebody else': [
    ['v=spf1 include:_spf.other.example -all'],
    /change it to "v=spf1 ip4:8\.8\.8\.8 include:_spf\.other\.example -all"/,
  ],
  'redirects elsewhere': [
    ['v=spf1 redirect=_spf.other.example'],
    /change it to "v=spf1 ip4:8\.8\.8\.8 redirect=_spf\.other\.example"/,
  ],
  'names us after all': [['v=spf1 -all ip4:8.8.8.8'], /does not name this service/],
  'names us as a failure': [['v=spf1 -ip4:8.8.8.8 ~all'], /does not name this service/],
  'names a network without us': [['v=spf1 ip4:8.8.4.0/24 ~all'], /does not name this service/],
  'exists twice': [
    ['v=spf1 ip4:8.8.8.8 ~all', 'v=spf1 include:_spf.other.example -all'],
    /2 SPF records.* "v=spf1 ip4:8\.8\.8\.8 include:_spf\.other\.example ~all"/,
  ],
  'is wrapped in quotation marks': [['"v=spf1 ip4:8.8.8.8 ~all"'], /quotation mark/],
  'needs too many look-ups': [
    [
      `v=spf1 ip4:8.8.8.8 ${Array.from({ length: 11 }, (_, at) => `include:s${at}.x`).join(' ')} ~all`,
    ],
    /needs 11 DNS look-ups/,
  ],
};

for (const [mistake, [texts, said]] of Object.entries(SPF_MISTAKES)) {
  test(`an SPF record that ${mistake} is reported as such`, () => {
    const { status, problem } = compareSpf(SPF, texts);
    assert.equal(status, 'mismatch');
    assert.match(problemText(problem) ?? '', said);
  });
}

test('TXT records that are no SPF do not count as one', () => {
  const { status, problem } = compareSpf(SPF, ['google-site-verification=x']);
  assert.equal(status, 'missing');
  assert.match(problemText(problem) ?? '', /none that starts with "v=spf1"/);
});

test('an SPF record that includes our addresses, in any syntax, is verified', () => {
  const records = [
    SPF,
    'v=spf1 ip4:8.8.8.8 include:_spf.other.example -all',
    'V=SPF1 +IP4:8.8.8.8 ?all',
    'v=spf1 ip4:8.8.8.0/24 ~all',
    'v=spf1 a mx ip4:8.8.8.8',
  ];
  for (const text of records) assert.equal(compareSpf(SPF, [text]).status, 'verified', text);
  const both = 'v=spf1 ip4:8.8.8.8 ip6:2606:4700::1 ~all';
  assert.equal(compareSpf(both, ['v=spf1 ip6:2606:4700::/32 ip4:8.8.8.8 -all']).status, 'verified');
  assert.equal(compareSpf(both, [SPF]).status, 'mismatch');
  const byName = `v=spf1 a:${HOST} ~all`;
  assert.equal(compareSpf(byName, [`v=spf1 a:${HOST}. -all`]).status, 'verified');
});

test('any host name of the installation is accepted as MX, and no other beside it', () => {
  const names = [HOST, 'mail2.letterhaus.example'];
  const verified = { status: 'verified', problem: null };
  for (const texts of [['10 mail2.letterhaus.example'], names.map((name) => `10 ${name}`)]) {
    assert.deepEqual(compareMx(names, mxRecords(texts), []), verified);
  }
  const beside = mxRecords(['10 mail2.letterhaus.example', '10 mx.other.example']);
  assert.match(
    problemText(compareMx(names, beside, []).problem) ?? '',
    /mx\.other\.example has the same or a better priority/,
  );
});

test('an SPF record with one machine of several is verified, with advice about the others', () => {
  const expected = 'v=spf1 ip4:8.8.8.8 ip4:8.8.8.9 a:mail2.letterhaus.example ~all';
  const sufficient = [['ip4:8.8.8.8', 'ip4:8.8.8.9'], ['a:mail2.letterhaus.example']];
  const judge = (text: string) => compareSpf(expected, [text], sufficient);
  assert.deepEqual(judge(expected), { status: 'verified', problem: null });
  const { status, problem } = judge('v=spf1 ip4:8.8.8.0/24 -all');
  assert.equal(status, 'verified');
  assert.match(
    problemText(problem) ?? '',
    /\(a:mail2\.letterhaus\.example\).* change it to "v=spf1 ip4:8\.8\.8\.8 /,
  );
  assert.equal(judge('v=spf1 ip4:8.8.8.9 ~all').status, 'mismatch', 'half of a machine');
});
