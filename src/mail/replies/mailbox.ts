/**
 * Replies about the mailbox (rules.ts): full, unknown, closed, moved; by enhanced code, then by text. Only
 * these rules can suppress an address, so a phrase has to be unambiguous: `is disabled` alone may be about
 * TLS.
 */
import type { Rule } from './match.ts';

const QUOTA: readonly Rule[] = [
  {
    means: 'mailbox_full',
    enhanced: ['2.2'],
    example: '452 4.2.2 The email account that you tried to reach has no room left.',
  },
  {
    means: 'mailbox_full',
    text: 'mailbox full | mailbox is full | inbox is full | inbox full | folder is full | user is full',
    example: '550 5.1.1 The mailbox is full',
  },
  {
    means: 'mailbox_full',
    text: 'over quota | overquota | over storage quota | quota exceeded | exceeded quota | quota full',
    example: '552 sorry, mailbox is over quota temporarily (#5.1.1)',
    phase: 'data',
  },
  {
    means: 'mailbox_full',
    text: 'exceeded its quota | exceeds quota | exceed quota | quota limit | quota violation | quota has been',
    example: '550 Message would exceed quota of the mailbox',
    phase: 'data',
  },
  {
    means: 'mailbox_full',
    text: 'exceeded storage | storage allocation | allowed storage | not enough storage | out of storage',
    example: '552 The recipient is out of storage space and inactive',
    phase: 'data',
  },
  {
    means: 'mailbox_full',
    text: 'mailbox size limit | mailbox has exceeded | mailbox exceed | maildir over',
    example: '552 Mailbox size limit exceeded',
  },
  {
    // Orange and Laposte.
    means: 'mailbox_full',
    text: 'ofr_417 | lpn007_417 | boite du destinataire pleine | speichervolumen',
    example: '552 Boite du destinataire pleine. OFR_417',
    phase: 'data',
  },
  {
    means: 'mailbox_full',
    text: 'insufficient disk space for user | no space left for | account is full | account full',
    example: '550 The account is full',
  },
];

const DOUBTFUL: readonly Rule[] = [
  {
    // Exchange Online's reply for addresses that are not in the tenant's directory.
    means: 'no_such_mailbox',
    enhanced: ['4.1'],
    text: 'recipient address rejected: access denied',
    example: '550 5.4.1 Recipient address rejected: Access denied. [prod.protection.outlook.test]',
  },
  {
    // Yandex, with an enhanced code for policy.
    means: 'no_such_mailbox',
    enhanced: ['7.1'],
    text: 'no such user!',
    example: '550 5.7.1 No such user!',
  },
  {
    // The code is about the mailbox but the text about the message, so the address may be valid.
    means: 'refused_by_policy',
    enhanced: ['1.1', '2.1'],
    text: 'will not accept delivery | message rejected | message refused | access denied | policy | blocked | banned',
    example: '521 5.2.1 : AOL will not accept delivery of this message.',
    phase: 'data',
  },
  {
    // KDDI's reply to the message when the recipient's own filter refuses it.
    means: 'not_allowed_to_recipient',
    text: '^: user unknown',
    example: '550 : User unknown',
    phase: 'data',
  },
  {
    // The code is about policy, so the text is not reliable enough to suppress.
    means: 'mailbox_problem',
    enhanced: ['7.*'],
    text: 'user unknown | unknown user | no such user | recipient unknown | does not exist | not found',
    example: '550 5.7.1 <jo@acme.test>: Recipient address rejected: User unknown',
  },
  {
    means: 'mailbox_paused',
    text: 'temporarily disabled | temporarily suspended | temporarily inactive | temporarily deactivated',
    example: '550 5.2.1 This mailbox is temporarily disabled',
  },
  {
    means: 'mailbox_paused',
    text: 'account is not active | mailbox is not active | mailbox temporarily | user temporarily | account temporarily | mailbox is locked | user is locked',
    example: '550 5.2.1 The mailbox is locked',
  },
  {
    means: 'mailbox_problem',
    text: 'unverified address | address verification | verification problem | verify the recipient | callout | recipient verify',
    example: '450 4.1.1 <jo@acme.test>: Recipient address rejected: unverified address',
  },
  {
    means: 'mailbox_problem',
    text: 'user lookup | recipient temporarily | directory lookup | ldap | database temporary error',
    example: '451 4.1.1 Temporary user lookup failure',
  },
  {
    means: 'domain_takes_no_mail',
    text: 'null mx | nullmx | does not accept mail | accepts no mail | not accept email at all',
    example: '556 5.1.10 Recipient address has null MX',
  },
];

const CLOSED: readonly Rule[] = [
  {
    means: 'mailbox_disabled',
    text: 'account is disabled | account has been disabled | account disabled | account is inactive',
    example: '554 delivery error: dd This account has been disabled or discontinued [#102].',
    phase: 'data',
  },
  {
    means: 'mailbox_disabled',
    text: 'mailbox is disabled | mailbox disabled | mailbox has been disabled | mailbox is inactive',
    example: '554 30 Sorry, your message cannot be delivered. This mailbox is disabled (554.30).',
    phase: 'data',
  },
  {
    means: 'mailbox_disabled',
    text: 'tried to reach is disabled | tried to reach is inactive | p=disableduser | user disabled',
    example: '550 The email account that you tried to reach is inactive. Learn more',
  },
  {
    means: 'mailbox_disabled',
    text: 'user is inactive | user inactive | recipient is inactive | inactive user | inactive email | inactive mailbox',
    example: '550 5.1.1 <jo@acme.test>: inactive email address',
  },
  {
    means: 'mailbox_disabled',
    text: 'disabled recipient | recipient is disabled | address is disabled | address has been disabled | user is disabled',
    example: '550 The address is disabled',
  },
  {
    means: 'mailbox_disabled',
    text: 'account deactivated | account is deactivated | account has been deactivated | mailbox deactivated',
    example: '550 The account has been deactivated',
  },
  {
    means: 'mailbox_disabled',
    text: 'account is closed | account closed | account has been closed | mailbox closed | mailbox has been closed',
    example: '550 Recipient address rejected: Account closed',
  },
  {
    means: 'mailbox_disabled',
    text: 'account expired | account has expired | mailbox expired | address expired | address has expired',
    example: '550 The account has expired',
  },
  {
    means: 'mailbox_disabled',
    text: 'account suspended | account is suspended | account has been suspended | user suspended | mailbox suspended',
    example: '550 Requested action not taken: user suspended',
  },
  {
    means: 'mailbox_disabled',
    text: 'address is no longer | mailbox is no longer | user is no longer | account is no longer | recipient is no longer',
    example: '550 This address is no longer active',
  },
  {
    means: 'mailbox_disabled',
    text: 'no longer in use | no longer a customer | no longer active | has been discontinued',
    example: '550 That name is no longer in use',
  },
  {
    means: 'mailbox_moved',
    text: 'no longer on server | mailbox moved | user has moved | no longer works here | user not local; please',
    example: '551 User has moved, please try another address',
  },
];

const BY_CODE: readonly Rule[] = [
  {
    means: 'no_such_mailbox',
    enhanced: ['1.1', '1.10', '1.350', '1.351'],
    example: '550 5.1.1 The email account that you tried to reach does not exist.',
  },
  {
    means: 'no_such_domain',
    enhanced: ['1.2', '4.310'],
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
    // RFC 5248 defines 5.7.13 for a disabled account; it is sent with 525.
    means: 'mailbox_disabled',
    enhanced: ['2.1', '7.13'],
    example: '550 5.2.1 Mailbox not accepting messages',
  },
];

const UNKNOWN: readonly Rule[] = [
  {
    means: 'no_such_mailbox',
    text: 'user unknown | unknown user | user is unknown | user not known | user unkown | unknown local',
    example: '550 <jo@acme.test>: User unknown',
  },
  {
    means: 'no_such_mailbox',
    text: 'no such user | no such person | no such recipient | no such mailbox | no such address',
    example: '550 No such user here',
  },
  {
    means: 'no_such_mailbox',
    text: 'no such account | no such name | no such local user | no such email | no user here',
    example: '550 There is no such account',
  },
  {
    means: 'no_such_mailbox',
    text: "user not found | user not exist | user does not exist | user doesn't exist | user cannot be found",
    example: '550 User not found: jo',
  },
  {
    // Yahoo.
    means: 'no_such_mailbox',
    text: "user doesn't have a | user does not have a | not have a mailbox | does not have an account",
    example: "554 delivery error: dd This user doesn't have a yahoo.test account (jo@yahoo.test)",
    phase: 'data',
  },
  {
    means: 'no_such_mailbox',
    text: "mailbox not found | mailbox does not exist | mailbox doesn't exist | mailbox unknown | mailbox not exist",
    example: '552 1 Requested mail action aborted, mailbox not found',
    phase: 'data',
  },
  {
    means: 'no_such_mailbox',
    text: 'no mailbox here | no mailbox by | unknown mailbox | invalid mailbox | mailbox is unknown | not a valid mailbox',
    example: '550 sorry, no mailbox here by that name',
  },
  {
    means: 'no_such_mailbox',
    text: 'recipient unknown | unknown recipient | recipient not found | recipient does not exist',
    example: '550 Unknown recipient, message not accepted',
  },
  {
    means: 'no_such_mailbox',
    text: 'invalid recipient | recipient invalid | recipient is invalid | not a valid recipient | recipient not exist',
    example: '550 5.5.0 Invalid recipient. LPN007_416',
  },
  {
    // Orange and Laposte, German and Polish providers.
    means: 'no_such_mailbox',
    text: 'destinataire invalide | ofr_416 | lpn007_416 | benutzer nicht bekannt | unbekannter | nie ma takiego',
    example: '550 Adresse d au moins un destinataire invalide. OFR_416 [416]',
  },
  {
    means: 'no_such_mailbox',
    text: "address does not exist | address doesn't exist | address not found | address unknown | unknown address",
    example: '550 Recipient address does not exist',
  },
  {
    means: 'no_such_mailbox',
    text: "account does not exist | account doesn't exist | unknown account | account not found",
    example: '550 The account does not exist',
  },
  {
    means: 'no_such_mailbox',
    text: 'tried to reach does not exist | p=nosuchuser | could not be found, or was misspelled',
    example: '550 The email account that you tried to reach does not exist',
  },
  {
    // Exim, when no router accepts the name.
    means: 'no_such_mailbox',
    text: 'unrouteable address | unroutable address | unknown or illegal user | unknown or illegal alias',
    example: '550 Unrouteable address',
  },
  {
    means: 'no_such_mailbox',
    text: 'undeliverable address | not listed in domino directory | recipnotfound | recipientnotfound',
    example: '550 5.1.0 <jo@acme.test>: Recipient address rejected: undeliverable address',
  },
  {
    means: 'no_such_mailbox',
    text: 'not our user | not our customer | not a known user | is not a user | not user of this server',
    example: '550 jo is not a known user',
  },
  {
    means: 'no_such_mailbox',
    text: '(#5.1.1)',
    example: '550 sorry, no (#5.1.1)',
  },
  {
    means: 'no_such_domain',
    text: 'host unknown | unknown host | unknown domain | no such domain | domain not found | no such host',
    example: '550 5.0.0 Host unknown',
  },
  {
    means: 'no_such_domain',
    text: 'domain does not exist | domain name not found | host or domain name not found | domain unknown',
    example: '550 The domain does not exist',
  },
  {
    // Outlook.com, for a domain without an address.
    means: 'no_such_domain',
    text: 'domain is not reachable + check the domain',
    example: '554 The domain is not reachable. Please check the domain and try again',
  },
  {
    means: 'bad_address',
    text: 'bad recipient address syntax | bad address syntax | recipient address syntax | invalid address syntax',
    example: '501 Bad address syntax. http://service.mail.qq.test/help',
  },
  {
    means: 'bad_address',
    text: 'malformed address | invalid rcpt address | invalid route address | malformed recipient | user address required',
    example: '501 <jo@acme.test>: malformed address',
  },
  {
    // RFC 5321's text for any 550, often sent to refuse a sender.
    means: 'mailbox_problem',
    text: 'mailbox unavailable | mailbox not available | mailbox is unavailable | mailbox busy | mailbox in use',
    example: '550 Requested action not taken: mailbox unavailable',
  },
  {
    // Cisco, for any address that is not in its list of recipients.
    means: 'mailbox_problem',
    text: '#5.1.0 address rejected | address rejected by',
    example: '550 #5.1.0 Address rejected.',
  },
];

export const MAILBOX: readonly Rule[] = [...QUOTA, ...DOUBTFUL, ...CLOSED, ...BY_CODE, ...UNKNOWN];
