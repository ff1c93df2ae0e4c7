/**
 * Replies about the mailbox: full, unknown, closed, moved (rules.ts), by enhanced code, then by text. Only these
 * rules can suppress an address, so each phrase must be unambiguous. `is disabled` alone could concern TLS.
 */
import { type Rule, rulesFor } from './rule-matching.ts';

const QUOTA: readonly Rule[] = rulesFor('mailbox_full', {
  '452 4.2.2 The email account that you tried to reach has no room left.': { enhanced: ['2.2'] },
  '550 5.1.1 The mailbox is full':
    'mailbox full | mailbox is full | inbox is full | inbox full | folder is full | user is full',
  '[data] 552 sorry, mailbox is over quota temporarily (#5.1.1)':
    'over quota | overquota | over storage quota | quota exceeded | exceeded quota | quota full',
  '[data] 550 Message would exceed quota of the mailbox':
    'exceeded its quota | exceeds quota | exceed quota | quota limit | quota violation | quota has been',
  '[data] 552 The recipient is out of storage space and inactive':
    'exceeded storage | storage allocation | allowed storage | not enough storage | out of storage',
  '552 Mailbox size limit exceeded':
    'mailbox size limit | mailbox has exceeded | mailbox exceed | maildir over',
  // Orange and Laposte.
  '[data] 552 Boite du destinataire pleine. OFR_417':
    'ofr_417 | lpn007_417 | boite du destinataire pleine | speichervolumen',
  '550 The account is full':
    'insufficient disk space for user | no space left for | account is full | account full',
});

const DOUBTFUL: readonly Rule[] = [
  ...rulesFor('no_such_mailbox', {
    // Exchange Online: the address is not in the tenant's directory.
    '550 5.4.1 Recipient address rejected: Access denied. [prod.protection.outlook.test]': {
      enhanced: ['4.1'],
      text: 'recipient address rejected: access denied',
    },
    // Yandex, with an enhanced code about policy.
    '550 5.7.1 No such user!': { enhanced: ['7.1'], text: 'no such user!' },
  }),
  ...rulesFor('refused_by_policy', {
    // The code concerns the mailbox, but the text concerns the message. The address may be valid.
    '[data] 521 5.2.1 : AOL will not accept delivery of this message.': {
      enhanced: ['1.1', '2.1'],
      text: 'will not accept delivery | message rejected | message refused | access denied | policy | blocked | banned',
    },
  }),
  ...rulesFor('not_allowed_to_recipient', {
    // KDDI, after DATA: the recipient's own filter refused the message.
    '[data] 550 : User unknown': '^: user unknown',
  }),
  ...rulesFor('mailbox_problem', {
    // The code concerns policy, so the text is not reliable enough to suppress.
    '550 5.7.1 <jo@acme.test>: Recipient address rejected: User unknown': {
      enhanced: ['7.*'],
      text: 'user unknown | unknown user | no such user | recipient unknown | does not exist | not found',
    },
  }),
  ...rulesFor('mailbox_paused', {
    '550 5.2.1 This mailbox is temporarily disabled':
      'temporarily disabled | temporarily suspended | temporarily inactive | temporarily deactivated',
    '550 5.2.1 The mailbox is locked':
      'account is not active | mailbox is not active | mailbox temporarily | user temporarily | account temporarily | mailbox is locked | user is locked',
  }),
  ...rulesFor('mailbox_problem', {
    '450 4.1.1 <jo@acme.test>: Recipient address rejected: unverified address':
      'unverified address | address verification | verification problem | verify the recipient | callout | recipient verify',
    '451 4.1.1 Temporary user lookup failure':
      'user lookup | recipient temporarily | directory lookup | ldap | database temporary error',
  }),
  ...rulesFor('domain_takes_no_mail', {
    '556 5.1.10 Recipient address has null MX':
      'null mx | nullmx | does not accept mail | accepts no mail | not accept email at all',
  }),
];

const CLOSED: readonly Rule[] = [
  ...rulesFor('mailbox_disabled', {
    '[data] 554 delivery error: dd This account has been disabled or discontinued [#102].':
      'account is disabled | account has been disabled | account disabled | account is inactive',
    '[data] 554 30 Sorry, your message cannot be delivered. This mailbox is disabled (554.30).':
      'mailbox is disabled | mailbox disabled | mailbox has been disabled | mailbox is inactive',
    '550 The email account that you tried to reach is inactive. Learn more':
      'tried to reach is disabled | tried to reach is inactive | p=disableduser | user disabled',
    '550 5.1.1 <jo@acme.test>: inactive email address':
      'user is inactive | user inactive | recipient is inactive | inactive user | inactive email | inactive mailbox',
    '550 The address is disabled':
      'disabled recipient | recipient is disabled | address is disabled | address has been disabled | user is disabled',
    '550 The account has been deactivated':
      'account deactivated | account is deactivated | account has been deactivated | mailbox deactivated',
    '550 Recipient address rejected: Account closed':
      'account is closed | account closed | account has been closed | mailbox closed | mailbox has been closed',
    '550 The account has expired':
      'account expired | account has expired | mailbox expired | address expired | address has expired',
    '550 Requested action not taken: user suspended':
      'account suspended | account is suspended | account has been suspended | user suspended | mailbox suspended',
    '550 This address is no longer active':
      'address is no longer | mailbox is no longer | user is no longer | account is no longer | recipient is no longer',
    '550 That name is no longer in use':
      'no longer in use | no longer a customer | no longer active | has been discontinued',
  }),
  ...rulesFor('mailbox_moved', {
    '551 User has moved, please try another address':
      'no longer on server | mailbox moved | user has moved | no longer works here | user not local; please',
  }),
];

const BY_CODE: readonly Rule[] = [
  ...rulesFor('no_such_mailbox', {
    '550 5.1.1 The email account that you tried to reach does not exist.': {
      enhanced: ['1.1', '1.10', '1.350', '1.351'],
    },
  }),
  ...rulesFor('no_such_domain', {
    '550 5.1.2 Bad destination system address: acme.test is not known': {
      enhanced: ['1.2', '4.310'],
    },
  }),
  ...rulesFor('bad_address', {
    '501 5.1.3 Bad recipient address syntax': { enhanced: ['1.3'] },
  }),
  ...rulesFor('mailbox_moved', {
    '551 5.1.6 Destination mailbox has moved, no forwarding address': { enhanced: ['1.6'] },
  }),
  ...rulesFor('mailbox_disabled', {
    // RFC 5248 defines 5.7.13 as a disabled account; servers send it with 525.
    '550 5.2.1 Mailbox not accepting messages': { enhanced: ['2.1', '7.13'] },
  }),
];

const UNKNOWN: readonly Rule[] = [
  ...rulesFor('no_such_mailbox', {
    '550 <jo@acme.test>: User unknown':
      'user unknown | unknown user | user is unknown | user not known | user unkown | unknown local',
    '550 No such user here':
      'no such user | no such person | no such recipient | no such mailbox | no such address',
    '550 There is no such account':
      'no such account | no such name | no such local user | no such email | no user here',
    '550 User not found: jo':
      "user not found | user not exist | user does not exist | user doesn't exist | user cannot be found",
    // Yahoo.
    "[data] 554 delivery error: dd This user doesn't have a yahoo.test account (jo@yahoo.test)":
      "user doesn't have a | user does not have a | not have a mailbox | does not have an account",
    '[data] 552 1 Requested mail action aborted, mailbox not found':
      "mailbox not found | mailbox does not exist | mailbox doesn't exist | mailbox unknown | mailbox not exist",
    '550 sorry, no mailbox here by that name':
      'no mailbox here | no mailbox by | unknown mailbox | invalid mailbox | mailbox is unknown | not a valid mailbox',
    '550 Unknown recipient, message not accepted':
      'recipient unknown | unknown recipient | recipient not found | recipient does not exist',
    '550 5.5.0 Invalid recipient. LPN007_416':
      'invalid recipient | recipient invalid | recipient is invalid | not a valid recipient | recipient not exist',
    // Orange and Laposte, German and Polish providers.
    '550 Adresse d au moins un destinataire invalide. OFR_416 [416]':
      'destinataire invalide | ofr_416 | lpn007_416 | benutzer nicht bekannt | unbekannter | nie ma takiego',
    '550 Recipient address does not exist':
      "address does not exist | address doesn't exist | address not found | address unknown | unknown address",
    '550 The account does not exist':
      "account does not exist | account doesn't exist | unknown account | account not found",
    '550 The email account that you tried to reach does not exist':
      'tried to reach does not exist | p=nosuchuser | could not be found, or was misspelled',
    // Exim: no router accepts the name.
    '550 Unrouteable address':
      'unrouteable address | unroutable address | unknown or illegal user | unknown or illegal alias',
    '550 5.1.0 <jo@acme.test>: Recipient address rejected: undeliverable address':
      'undeliverable address | not listed in domino directory | recipnotfound | recipientnotfound',
    '550 jo is not a known user':
      'not our user | not our customer | not a known user | is not a user | not user of this server',
    '550 sorry, no (#5.1.1)': '(#5.1.1)',
  }),
  ...rulesFor('no_such_domain', {
    '550 5.0.0 Host unknown':
      'host unknown | unknown host | unknown domain | no such domain | domain not found | no such host',
    '550 The domain does not exist':
      'domain does not exist | domain name not found | host or domain name not found | domain unknown',
    // Outlook.com: the domain has no address.
    '554 The domain is not reachable. Please check the domain and try again':
      'domain is not reachable + check the domain',
  }),
  ...rulesFor('bad_address', {
    '501 Bad address syntax. http://service.mail.qq.test/help':
      'bad recipient address syntax | bad address syntax | recipient address syntax | invalid address syntax',
    '501 <jo@acme.test>: malformed address':
      'malformed address | invalid rcpt address | invalid route address | malformed recipient | user address required',
  }),
  ...rulesFor('mailbox_problem', {
    // RFC 5321's text for any 550. Servers often send it to refuse a sender.
    '550 Requested action not taken: mailbox unavailable':
      'mailbox unavailable | mailbox not available | mailbox is unavailable | mailbox busy | mailbox in use',
    // Cisco: the address is not in its list of recipients.
    '550 #5.1.0 Address rejected.': '#5.1.0 address rejected | address rejected by',
  }),
];

export const MAILBOX: readonly Rule[] = [...QUOTA, ...DOUBTFUL, ...CLOSED, ...BY_CODE, ...UNKNOWN];
