/**
 * Replies of servers that verify the sender. Such a server connects to the server of our return path and asks it to
 * accept a bounce (a callout of Exim, `reject_unverified_sender` of Postfix). These rules come first (rules.ts),
 * because the replies quote the other server: `No Such User Here` or `blacklisted` then concerns the return path,
 * not the recipient and not a blocklist.
 *
 * rule-matching.ts explains `<return-path>`.
 */
import { ABOUT_RETURN_PATH, type Rule, rulesFor } from './rule-matching.ts';

export const VERIFICATION: readonly Rule[] = [
  ...rulesFor('not_authenticated', {
    '[mail] 550 5.7.1 Sender verification failed: SPF permits other servers only':
      'sender + verif + spf | sender + verif + dkim | sender + verif + dmarc | dkim + not be verified | signature + not be verified',
  }),
  ...rulesFor('mailbox_problem', {
    // A forwarding server asks the next one about the recipient.
    '550 Recipient verification failed for <jo@acme.test>':
      'recipient verification failed | recipient address verification failed | recipient verify failed',
  }),
  ...rulesFor('sender_unverified', {
    // Exim: the first line, the reply to its callout, then `Sender verify failed` or a configured text.
    '550-Verification failed for <b@acme.test>\n550-No Such User Here\n550 Your sender address could not be verified':
      'verification failed for | verification failed while checking | callback setup failed | sender verify | sender verification',
    '451 Could not complete the callout for the sender':
      'sender callout | sender callback | callout + sender | callback + sender | callback verification | callback verify | callout + mail from | callback + mail from | sav failed',
    '[mail] 550 5.1.0 The address of the sender cannot be verified':
      "sender + not be verified | sender + n't be verified | sender not verified | sender is not verified | sender address not verified | sender unverified | unverified sender | sender + unverifiable",
    '[mail] 451 4.1.8 Unable to verify sender, try again later':
      'verify sender | verify the sender | verify your sender | verifying sender | verifying the sender | verification of sender | verification of the sender | sender address verification',
    '[mail] 550 5.1.0 The return address could not be verified':
      'return address + not be verified | return path + not be verified | return-path + not be verified | envelope from + not be verified | from address + not be verified | reverse-path + not be verified | reverse path + not be verified | mail from + not be verified',
    '[mail] 451 Cannot verify the return path':
      'verify return | verify the return | verify your return | verify the envelope | verify envelope | verify mail from | verify the mail from | verify reverse',
    // Postfix.
    '450 4.1.7 <b@acme.test>: Sender address rejected: unverified address: Address verification in progress':
      'sender address rejected: undeliverable | sender address rejected: unverified | sender address is undeliverable | sender address undeliverable | sender is undeliverable | sender undeliverable',
    '[data] 550 The destination mail system rejected your return address':
      'return address is undeliverable | return address is not deliverable | return address does not exist | return path does not exist | return address rejected | return path rejected | rejected your return address',
    '[mail] 550 We take no mail from domains whose servers refuse bounces':
      'refuse bounces | refuses bounces | accept bounces | accepts bounces | reject bounces | rejects bounces | reject the postmaster address | does not accept mail from:<> | refusing mail from:<>',
    // Texts about the sender's mailbox.
    "550 The sender's mailbox does not exist":
      "sender mailbox | sender's mailbox | mailbox of the sender | sender address does not exist | sender address doesn't exist | ^sender does not exist | ^the sender does not exist | sender unknown | sender check | sender could not be checked",
    "550 The sender's address does not exist":
      "sender's address + exist | sender's address is unknown | sender's address is not | sender's address was not | sender's email address + not | sender's e-mail address + not | sender's account + not | sender email + not | sender account + not | account of the sender + not | ^unknown sender: | unknown sender address",
    '550 Return address unknown: no such user':
      'return address unknown | return path unknown | return-path unknown | return path mailbox | return-path mailbox | return-path does not exist | reverse-path is not deliverable | reverse path does not exist | reverse-path does not exist | mail from mailbox | mail from address + exist | bounce address',
    // The reply addresses the sender as "you".
    '550 Your address could not be verified: no such user':
      'your address + not be verified | your email + not be verified | your e-mail + not be verified | could not verify your | cannot verify your | unable to verify your',
    '550 The from address is not valid: no such user':
      'from address is not valid | from address is invalid | from address does not exist | invalid from address | return address is not valid | return address is invalid | invalid return address | invalid return path',
    // German, French, Spanish, Italian, Portuguese, Dutch, Polish.
    '550 Der Absender konnte nicht verifiziert werden':
      'absender + verifiz | absender + \u00fcberpr\u00fcf | absender unbekannt | absender existiert nicht | exp\u00e9diteur + v\u00e9rifi | expediteur + verifi | remitente + verific | mittente + verific | remetente + verific | afzender + verif | nadawc + weryfik',
  }),
  ABOUT_RETURN_PATH,
  ...rulesFor('sender_unverified', {
    '550 <b-abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnop@send.acme.test>: verification says no':
      '<return-path> + verif | <return-path> + undeliverable | <return-path> + unrouteable | <return-path> + user does not exist | <return-path> + mailbox does not exist | <return-path> + address does not exist | <return-path> + account does not exist',
    '[mail] 550 <b-abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnop@send.acme.test>: mailbox unavailable':
      '<return-path> + user not found | <return-path> + mailbox not found | <return-path> + recipient address rejected | <return-path> + mailbox unavailable | <return-path> + no mailbox here | <return-path> + account or domain may not exist',
  }),
  ...rulesFor('mailbox_problem', {
    // cPanel: one text for any address that it cannot verify, with three possible causes.
    '550-The mail server could not deliver mail to jo@acme.test. The account or domain may not exist,\n550 they may be blacklisted, or missing the proper dns entries.':
      'account or domain may not exist | they may be blacklisted | verification of + failed',
  }),
];
