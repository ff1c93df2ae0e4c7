/** Answers about the mailbox (classify-rules.ts): by enhanced code, then by words. */
import type { Rule } from './classify-rules.ts';

export const MAILBOX: readonly Rule[] = [
  {
    means: 'mailbox_full',
    enhanced: ['2.2'],
    example: '452 4.2.2 The email account that you tried to reach has no room left.',
  },
  {
    means: 'mailbox_full',
    text: 'mailbox full | mailbox is full | inbox is full | over quota | overquota | quota exceeded',
    example: '552 sorry, mailbox is over quota temporarily (#5.1.1)',
    phase: 'dot',
  },
  {
    means: 'mailbox_full',
    text: 'exceeded its quota | exceeded storage | not enough storage | out of storage | quota full',
    example: '552 The recipient is out of storage space and inactive',
    phase: 'dot',
  },
  {
    // Exchange Online says so for addresses that are not in the directory of the tenant.
    means: 'no_such_mailbox',
    enhanced: ['4.1'],
    text: 'recipient address rejected: access denied',
    example: '550 5.4.1 Recipient address rejected: Access denied. [prod.protection.outlook.test]',
  },
  {
    // The code speaks of policy, so the words are not believed enough to suppress.
    means: 'mailbox_trouble',
    enhanced: ['7.*'],
    text: 'user unknown | unknown user | no such user',
    example: '550 5.7.1 <jo@acme.test>: Recipient address rejected: User unknown',
  },
  {
    means: 'domain_takes_no_mail',
    text: 'null mx | nullmx | does not accept mail | accepts no mail',
    example: '556 5.1.10 Recipient address has null MX',
  },
  {
    means: 'mailbox_disabled',
    text: 'is disabled | been disabled | account disabled | disabled recipient | is inactive',
    example: '554 delivery error: dd This account has been disabled or discontinued [#102].',
    phase: 'dot',
  },
  {
    means: 'not_allowed_to_recipient',
    text: 'resolver.rst. | not authorized to send | permission to post | only accepts mail from',
    example: '550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; not a member',
  },
  {
    means: 'no_such_mailbox',
    enhanced: ['1.1', '1.10'],
    example: '550 5.1.1 The email account that you tried to reach does not exist.',
  },
  {
    means: 'no_such_domain',
    enhanced: ['1.2'],
    example: '550 5.1.2 Bad destination system address: acme.test is not known',
  },
  {
    means: 'bad_address',
    enhanced: ['1.3'],
    example: '501 5.1.3 Bad recipient address syntax',
  },
  {
    means: 'mailbox_moved',
    enhanced: ['1.6'],
    example: '551 5.1.6 Destination mailbox has moved, no forwarding address',
  },
  {
    // RFC 5248 has 5.7.13 for a disabled account; it comes with 525.
    means: 'mailbox_disabled',
    enhanced: ['2.1', '7.13'],
    example: '550 5.2.1 Mailbox not accepting messages',
  },
];

export const MAILBOX_WORDS: readonly Rule[] = [
  {
    means: 'no_such_mailbox',
    text: 'user unknown | unknown user | no such user | user not found | user not exist',
    example: '550 <jo@acme.test>: User unknown',
  },
  {
    means: 'no_such_mailbox',
    text: "user does not exist | user doesn't exist | user doesn't have | no such person",
    example: "554 delivery error: dd This user doesn't have a yahoo.test account (jo@yahoo.test)",
    phase: 'dot',
  },
  {
    means: 'no_such_mailbox',
    text: 'no mailbox here | no such mailbox | mailbox not found | unknown mailbox | mailbox unknown',
    example: '550 sorry, no mailbox here by that name',
  },
  {
    means: 'no_such_mailbox',
    text: 'mailbox does not exist | address does not exist | recipient does not exist | no such address',
    example: '550 Recipient address does not exist',
  },
  {
    means: 'no_such_mailbox',
    text: 'unknown recipient | recipient unknown | recipient not found | no such recipient',
    example: '550 Unknown recipient, message not accepted',
  },
  {
    means: 'no_such_mailbox',
    text: 'invalid recipient | recipient invalid | invalid mailbox | unknown or illegal',
    example: '550 5.5.0 Invalid recipient. LPN007_416',
  },
  {
    means: 'mailbox_disabled',
    text: 'no longer active | no longer available | deactivated | account is closed | account expired',
    example: '550 This address is no longer active',
  },
  {
    means: 'mailbox_moved',
    text: 'no longer on server | mailbox has moved | user has moved | no longer works here',
    example: '551 User has moved, please try another address',
  },
  {
    means: 'no_such_domain',
    text: 'host unknown | unknown domain | no such domain | domain not found | domain does not exist',
    example: '550 Unrouteable address: domain does not exist',
  },
  {
    // The sentence of RFC 5321 for any 550, often said to a sender that is not wanted.
    means: 'mailbox_trouble',
    text: 'mailbox unavailable | mailbox not available',
    example: '550 Requested action not taken: mailbox unavailable',
  },
];
