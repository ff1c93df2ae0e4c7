/** Replies of servers in other fields than Diagnostic-Code. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readStatusEntries } from './status-fields.ts';
import { classifyReported } from './classify-report.ts';

/** Returns the status and the effect on the recipient. */
function read(fields: string): string {
  const [entry, ...others] = readStatusEntries(
    `Reporting-MTA: dns; mx.test\nX-Queue-ID: 550A3F\n\nFinal-Recipient: rfc822; jo@dest.dev\nAction: failed\n${fields}`,
  );
  assert.ok(entry !== undefined && others.length === 0);
  const { status, diagnostics } = entry;
  const { classification } = classifyReported({ texts: diagnostics, status, isDelay: false });
  return `${status}, ${classification.category}${classification.suppress ? ', suppressed' : ''}`;
}

const EXAMPLES: readonly [name: string, fields: string, result: string][] = [
  [
    'IronPort',
    'Status: 5.0.0\nRemote-MTA: dns; 192.0.2.9\nX-Supplementary-Info: <192.0.2.9 #5.0.0 smtp; 550 "Unknown User">',
    '5.0.0, mailbox, suppressed',
  ],
  [
    'IronPort, folded, in front of Exchange Online',
    'Status: 5.0.0\nX-Supplementary-Info: <acme.mail.protection.outlook.test #5.0.0 smtp;\n 550 5.4.1 [jo@dest.dev]: Recipient address rejected: Access\n denied [x.eop-APC01.prod.protection.outlook.test]>',
    '5.0.0, mailbox, suppressed',
  ],
  [
    'IronPort, in front of Yahoo',
    'Status: 5.0.0\nX-Supplementary-Info: <mta5.yahoodns.test #5.0.0 smtp; 554 delivery error:\n dd Sorry, your message to jo@dest.dev cannot be delivered. This\n mailbox is disabled (554.30). - mta4490.mail.test>',
    '5.0.0, mailbox, suppressed',
  ],
  [
    'Exchange',
    'Status: 5.1.1\nX-Supplementary-Info: <mx.google.test #5.1.1 smtp;550-5.1.1 The email account\n that you tried to reach does not exist. Please try 550-5.1.1 double-checking>\nX-Display-Name: jo@dest.dev',
    '5.1.1, mailbox, suppressed',
  ],
  [
    'Exchange, with a status that only the brackets have',
    'Status: 5.0.0\nX-Supplementary-Info: < #5.2.2 SMTP; The message was not taken> #SMTP#',
    '5.2.2, quota',
  ],
  [
    'IronPort, beside an empty Diagnostic-Code',
    'Status: 5.0.0\nDiagnostic-Code: smtp;\nX-Supplementary-Info: <192.0.2.9 #5.0.0 smtp; 552 "Mailbox full">',
    '5.0.0, quota',
  ],
  [
    'beside a Diagnostic-Code that says nothing',
    'Status: 5.0.0\nDiagnostic-Code: smtp; 550 failed\nX-Supplementary-Info: <192.0.2.9 #5.0.0 smtp; 550 "Unknown User">',
    '5.0.0, mailbox, suppressed',
  ],
  [
    'a Diagnostic-Code that says something comes first',
    'Status: 5.0.0\nDiagnostic-Code: smtp; 552 Mailbox full\nX-Supplementary-Info: <192.0.2.9 #5.0.0 smtp; 550 "Unknown User">',
    '5.0.0, quota',
  ],
  [
    'Exim',
    'Status: 5.0.0\nX-Exim-Diagnostic: X-str; Unrouteable address',
    '5.0.0, mailbox, suppressed',
  ],
  [
    'any other field that quotes a reply',
    'Status: 5.0.0\nX-Gateway-Said: smtp; 550 5.1.1 <jo@dest.dev>: no such user here',
    '5.0.0, mailbox, suppressed',
  ],
  [
    'fields that quote none: an id, a name, a sender',
    'Status: 5.0.0\nX-Postfix-Queue-ID: 550A3F\nX-Display-Name: Unknown User\nX-Postfix-Sender: rfc822; b@acme.test',
    '5.0.0, policy',
  ],
];

for (const [name, fields, result] of EXAMPLES) {
  test(`the server's reply is read from the fields of ${name}`, () => {
    assert.equal(read(fields), result);
  });
}

test('an extension field belongs to the recipient of its group, before or after it', () => {
  const said = (text: string) => `X-Supplementary-Info: <192.0.2.9 #5.0.0 smtp; ${text}>`;
  const entries = readStatusEntries(
    [
      `${said('550 "Unknown User"')}\nFinal-Recipient: rfc822; a@dest.dev\nAction: failed`,
      `Final-Recipient: rfc822; b@dest.dev\nAction: failed\n${said('552 "Mailbox full"')}`,
      `Final-Recipient: rfc822; c@dest.dev\nAction: failed`,
    ].join('\n\n'),
  );
  assert.deepEqual(
    entries.map(({ recipient, diagnostics }) => [recipient, diagnostics]),
    [
      ['a@dest.dev', ['550 "Unknown User"']],
      ['b@dest.dev', ['552 "Mailbox full"']],
      ['c@dest.dev', []],
    ],
  );
});
