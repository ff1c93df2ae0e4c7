/** Replies that refuse the sender's identity (rules.ts): reverse DNS, HELO, SPF, DKIM, DMARC, TLS, log-in. */
import { type Rule, rulesFor } from './rule-matching.ts';

export const AUTHENTICATION: readonly Rule[] = [
  ...rulesFor('no_reverse_dns', {
    '554 5.7.1 Your server needs a PTR record with a valid entry':
      'reverse dns | reverse-dns | rdns | no ptr | missing ptr | ptr record | ptr resource record',
    '450 4.7.1 Client host rejected: cannot find your reverse hostname, [192.0.2.1]':
      'reverse hostname | cannot find your hostname | cannot find your reverse | reverse lookup',
    '550 5.7.1 Relaying denied. IP name lookup failed [192.0.2.1]':
      'ip name lookup failed | ip name possibly forged | mismatches client ip | pt000001 | pt000002',
    '[greeting] 554-No SMTP service\n554 Bad DNS PTR lookup: does not lead back':
      'ptr lookup | forward-confirmed | bad dns ptr | dns ptr | aup#cxdns | without ptr',
  }),
  ...rulesFor('bad_helo', {
    '504 5.5.2 <localhost>: Helo command rejected: need fully-qualified hostname':
      'helo command rejected | invalid helo | bad helo | ehlo name | helo name | helohost',
    '[mail] 550 5.7.0 HELO of your server does not resolve':
      'helo + does not resolve | helo + invalid | ehlo + invalid | helo + not match | ehlo argument',
  }),
  ...rulesFor('not_authenticated', {
    "[data] 550 5.7.1 Email from acme.test is not accepted due to domain's DMARC policy.": 'dmarc',
    '[data] 550 5.7.0 DKIM signature verification failed': 'dkim',
    '[mail] 550 5.7.1 SPF check failed: 192.0.2.1 may not send for acme.test':
      'spf check | spf record | spf fail | (spf) | spf validation | spf policy | spf error | mi:spf',
    '[mail] 553 SPF says no: see http://www.openspf.test/Why':
      'sender policy framework | openspf | spf.pobox | spf: | spf + not permitted | by spf',
    '[data] 550 5.7.1 This mail is unauthenticated, which poses a security risk':
      'unauthenticated | fails authentication | sender authentication | sender id | senderid',
    '[data] 421 4.7.0 This message does not pass authentication checks (SPF and others)':
      'does not pass authentication | authentication checks | authentication information + gmail',
    // Mimecast and others: the sender is in the recipient's own domain, but the mail comes from outside.
    '[data] 550 Rejected by header based Anti-Spoofing policy: acme.test':
      'anti-spoof | antispoof | spoofed | spoofing | forged sender | fake sender | forged from',
    "[mail] 550 5.7.1 can't determine Purported Responsible Address":
      'purported responsible | submitter failed | not permitted to send on behalf | not allowed to send from',
  }),
  ...rulesFor('sender_domain_unknown', {
    '450 4.7.1 <b@acme.test>: Sender address rejected: Domain not found':
      'sender address rejected: domain not found | domain of sender address | sdnf',
    '[mail] 550 Your sender domain does not resolve':
      'sender domain + not | sending domain + does not exist | from: domain is invalid',
    '[mail] 550 The sender has neither an MX record nor an address':
      "mx for sender | sender + mx record | sender + a record | sender's domain + dns | valid sender domain",
  }),
  ...rulesFor('sender_refused', {
    '550 5.1.0 <b@acme.test>: Sender address rejected: User unknown':
      'sender address rejected | unroutable sender | unrouteable sender | sender denied',
    '[data] 550 Rejected by header based manually Blocked Senders':
      'sender rejected | sender is rejected | sender blocked | sender address blocked | blocked sender',
    '[mail] 553 sorry, your envelope sender has been denied (#5.7.1)':
      'envelope sender | denies the sender | invalid sender | bad sender | sender invalid',
    '[mail] 553 Requested action not taken: NULL sender is not allowed':
      'null sender | empty sender | bounces not accepted | mail from: + rejected',
    // Replies of a relay about the account that we log in with.
    '[mail] 550 5.7.1 Your account has been suspended':
      'your account has been | outgoing mail + suspended | not owned by user',
  }),
  ...rulesFor('tls_required', {
    '[mail] 530 5.7.0 Must issue a STARTTLS command first':
      'must issue a starttls | starttls first | tls required | requires tls | over tls | use tls',
    '[mail] 554 5.7.1 STARTTLS is required to send to this domain':
      'starttls is required | encryption required | encryption needed | not encrypted',
  }),
  ...rulesFor('relay_denied', {
    '550 5.7.1 <jo@acme.test>... Relaying denied. Proper authentication required.':
      'relay access denied | relaying denied | relaying not | relaying disallowed | relay not permitted',
  }),
  ...rulesFor('login_refused', {
    '[mail] 550 Please turn on SMTP Authentication in your mail client':
      'smtp authentication | authentication required | authentication is required | auth required',
    '[auth] 535 Incorrect authentication data':
      'authentication failed | authentication data | requires authentication | not logged in',
  }),
];
