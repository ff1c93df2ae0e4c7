/** Reports about several addresses: which result counts for the address that was mailed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseMailbox } from '../mail/address.ts';
import type { NotifyEvent, RcptDsn } from '../mail/dsn-parameters.ts';
import { readReport } from '../mail/reports/read-report.ts';
import type { SentRecipient } from './report-store.ts';
import { consequenceOf, interimResultOf } from './consequence.ts';

const OURS = 'a@dest.dev';
const GONE = 'Status: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 User unknown';
const FAILED = `Action: failed\n${GONE}`;
const DELIVERED = 'Action: delivered\nStatus: 2.0.0';
const DELAYED = 'Action: delayed\nStatus: 4.4.1';

const final = (address: string, result: string) => `Final-Recipient: rfc822; ${address}\n${result}`;
/** The result after an alias or a forwarding: the sender's address, then the final one. */
const via = (original: string, address: string, result: string) =>
  `Original-Recipient: rfc822;${original}\n${final(address, result)}`;

function statusReport(groups: readonly string[]): Buffer {
  const fields = ['Reporting-MTA: dns; mx.dest.dev', ...groups].join('\n\n');
  return Buffer.from(
    'From: MAILER-DAEMON@mx.dest.dev\nSubject: Undelivered\n' +
      'Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n' +
      `--b\n\nAbout your mail.\n--b\nContent-Type: message/delivery-status\n\n${fields}\n\n` +
      `--b\nContent-Type: text/rfc822-headers\n\nFrom: hello@acme.test\nTo: ${OURS}\n\n--b--\n`,
  );
}

function recipientAt(
  address: string,
  { notify = [], orcpt = null }: Partial<RcptDsn> = {},
): SentRecipient {
  const { address: ours } = parseMailbox(address)!;
  const from = parseMailbox('hello@acme.test')!;
  const recipients = { [ours]: { notify, orcpt } };
  const dsn = {
    kind: 'request',
    sender: from.address,
    ret: null,
    envid: null,
    recipients,
  } as const;
  return {
    projectId: 'p',
    environment: 'live',
    position: 0,
    address: ours,
    status: 'sent',
    isTooOld: false,
    email: { id: 'e', from, dsn },
  };
}

function endOf(bytes: Buffer, { address = OURS, orcpt = null }: Partial<Example> = {}): string {
  const recipient = recipientAt(address, { orcpt });
  const change = consequenceOf(readReport(bytes), recipient, { newId: () => 'id' });
  if (change === null) return 'unchanged';
  const { status, suppress } = change.settlement;
  if (suppress === null) return status;
  return `${status}, suppressed${suppress.days === null ? '' : ` for ${suppress.days} days`}`;
}

type Example = { groups: readonly string[]; end: string; address?: string; orcpt?: string | null };

const EXAMPLES: Readonly<Record<string, Example>> = {
  'ours arrived, another failed': {
    groups: [final(OURS, DELIVERED), final('other@dest.dev', FAILED)],
    end: 'delivered',
  },
  'another failed, ours arrived': {
    groups: [final('other@dest.dev', FAILED), final(OURS, DELIVERED)],
    end: 'delivered',
  },
  'ours failed, another arrived': {
    groups: [final('other@dest.dev', DELIVERED), final(OURS, FAILED)],
    end: 'bounced, suppressed',
  },
  'ours is delayed, another failed': {
    groups: [final(OURS, DELAYED), final('other@dest.dev', FAILED)],
    end: 'unchanged',
  },
  'ours is delayed with a status of 5.1.1': {
    groups: [final(OURS, `Action: delayed\n${GONE}`)],
    end: 'unchanged',
  },
  'ours was relayed, another failed': {
    groups: [final(OURS, 'Action: relayed\nStatus: 2.1.9'), final('other@dest.dev', FAILED)],
    end: 'unchanged',
  },
  'ours was expanded, a member of the list failed': {
    groups: [final(OURS, 'Action: expanded\nStatus: 2.0.0'), final('member@else.test', FAILED)],
    end: 'unchanged',
  },
  'ours was forwarded: only Original-Recipient names it': {
    groups: [via('other@dest.dev', 'x@else.test', DELIVERED), via(OURS, 'y@else.test', FAILED)],
    end: 'bounced, suppressed for 7 days',
  },
  'Original-Recipient comes before Final-Recipient': {
    groups: [via(OURS, 'x@else.test', DELIVERED), via('list@dest.dev', OURS, FAILED)],
    end: 'delivered',
  },
  'Original-Recipient is the ORCPT that the sender gave': {
    groups: [
      via('jö+x@old.test', 'x@else.test', FAILED),
      via('jö+x@old.test', 'y@else.test', FAILED),
    ],
    orcpt: 'utf-8;j\\x{F6}\\x{2B}x@old.test',
    end: 'bounced, suppressed for 7 days',
  },
  'the ORCPT that the sender gave, as xtext, beside another': {
    groups: [
      via('jo+x@old.test', 'x@else.test', DELIVERED),
      via('b@old.test', 'y@else.test', FAILED),
    ],
    orcpt: 'rfc822;jo+2Bx@old.test',
    end: 'delivered',
  },
  'a copy stayed with us, a forwarded one failed': {
    groups: [via(OURS, 'x@else.test', FAILED), via(OURS, OURS, DELIVERED)],
    end: 'delivered',
  },
  'our mailbox failed, a forwarded copy arrived': {
    groups: [via(OURS, 'x@else.test', DELIVERED), via(OURS, OURS, FAILED)],
    end: 'bounced, suppressed',
  },
  'both forwarded copies failed, one of them because its mailbox was full': {
    groups: [
      via(OURS, 'x@else.test', FAILED),
      via(OURS, 'y@else.test', 'Action: failed\nStatus: 5.2.2'),
    ],
    end: 'bounced',
  },
  'one forwarded copy failed, one may still arrive': {
    groups: [via(OURS, 'x@else.test', FAILED), via(OURS, 'y@else.test', DELAYED)],
    end: 'unchanged',
  },
  'another case': {
    groups: [final('A@DEST.DEV', FAILED), final('other@dest.dev', DELIVERED)],
    end: 'bounced, suppressed',
  },
  'in brackets, without a type': {
    groups: [`Final-Recipient: <${OURS}>\n${FAILED}`, final('other@dest.dev', DELIVERED)],
    end: 'bounced, suppressed',
  },
  'as xtext (RFC 3461)': {
    groups: [via('a+2Bnews@dest.dev', 'x@else.test', FAILED), final('b@dest.dev', DELIVERED)],
    address: 'a+news@dest.dev',
    end: 'bounced, suppressed for 7 days',
  },
  'internationalised, escaped (RFC 6533)': {
    groups: [
      `Final-Recipient: utf-8; j\\x{F6}rg@dest.dev\n${FAILED}`,
      final('b@dest.dev', DELIVERED),
    ],
    address: 'jörg@dest.dev',
    end: 'bounced, suppressed',
  },
  'internationalised, with an escaped +': {
    groups: [
      `Final-Recipient: utf-8; j\\x{F6}rg\\x{2B}news@dest.dev\n${FAILED}`,
      final('b@dest.dev', DELIVERED),
    ],
    address: 'jörg+news@dest.dev',
    end: 'bounced, suppressed',
  },
  'as an encoded word (RFC 2047)': {
    groups: [
      `Final-Recipient: rfc822; =?utf-8?q?j=C3=B6rg=40dest=2Edev?=\n${FAILED}`,
      final('b@dest.dev', DELIVERED),
    ],
    address: 'jörg@dest.dev',
    end: 'bounced, suppressed',
  },
  'internationalised, in UTF-8, with a domain in Unicode': {
    groups: [`Final-Recipient: utf-8; jörg@bücher.test\n${FAILED}`, final('b@dest.dev', DELIVERED)],
    address: 'jörg@xn--bcher-kva.test',
    end: 'bounced, suppressed',
  },
  'the only result names another address': {
    groups: [final('x@else.test', FAILED)],
    end: 'bounced, suppressed for 7 days',
  },
  'the only result names no address': {
    groups: [`Final-Recipient: x400; /S=a/PRMD=dest/\n${FAILED}`],
    end: 'bounced, suppressed',
  },
  'two results about one other address': {
    groups: [final('x@else.test', FAILED), final('x@else.test', FAILED)],
    end: 'bounced, suppressed for 7 days',
  },
  'groups with Original-Recipient only': {
    groups: [
      `Original-Recipient: rfc822;other@dest.dev\n${FAILED}`,
      `Original-Recipient: rfc822;${OURS}\n${DELIVERED}`,
    ],
    end: 'delivered',
  },
  'a comment before the address has another one': {
    groups: [
      `Final-Recipient: rfc822; (for x@else.test) ${OURS}\n${FAILED}`,
      final('other@dest.dev', DELIVERED),
    ],
    end: 'bounced, suppressed',
  },
  'only a comment has the address': {
    groups: [
      `Final-Recipient: x400; /S=a/ (${OURS})\n${FAILED}`,
      final('other@dest.dev', DELIVERED),
    ],
    end: 'bounced, suppressed',
  },
  'none of several results names ours': {
    groups: [final('x@else.test', FAILED), final('y@else.test', DELIVERED)],
    end: 'unchanged',
  },
  'a result without an address failed, another arrived': {
    groups: [
      `Final-Recipient: x-unix; |/usr/bin/vacation\n${FAILED}`,
      final('x@else.test', DELIVERED),
    ],
    end: 'unchanged',
  },
};

for (const [name, example] of Object.entries(EXAMPLES)) {
  test(`a report about several addresses: ${name}`, () => {
    assert.equal(endOf(statusReport(example.groups), example), example.end);
  });
}

test('a sender that requested it is notified of a delay or a relay that another server reports', () => {
  const RELAYED = 'Action: relayed\nStatus: 2.1.9';
  const cases: [result: string, notify: NotifyEvent[], notice: string | undefined][] = [
    [DELAYED, ['DELAY'], 'delayed 4.4.1'],
    [DELAYED, ['SUCCESS', 'FAILURE'], undefined],
    [RELAYED, ['SUCCESS'], 'relayed 2.1.9'],
    [RELAYED, ['FAILURE', 'DELAY'], undefined],
    [RELAYED, [], undefined],
    ['Action: expanded\nStatus: 2.0.0', ['SUCCESS'], undefined],
  ];
  for (const [result, notify, expected] of cases) {
    const report = readReport(statusReport([final(OURS, result), final('other@dest.dev', FAILED)]));
    const interim = interimResultOf(report, recipientAt(OURS, { notify }), { newId: () => 'id' });
    const facts = interim?.notice?.facts;
    assert.equal(
      facts && `${facts.action} ${facts.status}`,
      expected,
      `${result} ${notify.join()}`,
    );
  }
});
