/** The message itself is not wanted (rules.ts): malware, spam, form, size. */
import type { Rule } from './meanings.ts';

export const CONTENT: readonly Rule[] = [
  {
    means: 'attachment_refused',
    text: 'attachment + not allowed | attachment type | banned attachment | banned file | banned: | banned ext',
    example: '550 5.7.1 Attachment with this extension is not allowed here',
    phase: 'data',
  },
  {
    means: 'attachment_refused',
    text: 'executable | file type | blocked attachment | attachment blocked | attachment is too long',
    example: '554 5.7.1 Messages with an executable inside are refused',
    phase: 'data',
  },
  {
    // Gmail.
    means: 'virus',
    text: 'potential security issue | p=blockedmessage',
    example: '552 5.7.0 Blocked because its content presents a potential security issue.',
    phase: 'data',
  },
  {
    means: 'virus',
    text: 'virus found | virus detected | contains a virus | contains virus | virus infect | virus:',
    example: '554 5.7.1 virus Eicar-Test-Signature found: virus detected',
    phase: 'data',
  },
  {
    means: 'virus',
    text: 'infected | malware | trojan | worm | ransom | mcspamsignature',
    example: '554 5.7.0 Reject, id=12345-01 - INFECTED: Eicar-Test-Signature',
    phase: 'data',
  },
  {
    // Yahoo's PH01 among them.
    means: 'virus',
    text: 'phish | [ph01] | dangerous | malicious | scam',
    example: '554 5.0.0 [PH01] Email not accepted',
    phase: 'data',
  },
  {
    // Gmail, for mail to a group as well.
    means: 'spam',
    text: 'unsolicited | due to spam classification | bulk mail | bulk email | ube, | junkmail | junk mail',
    example: '550 5.7.1 Our system has detected that this message is likely unsolicited mail.',
    phase: 'data',
  },
  {
    means: 'spam',
    text: 'as spam | is spam | spam message | spam detected | spam content | spam score | spam found',
    example: '554 5.7.1 Message rejected as spam by content filtering',
    phase: 'data',
  },
  {
    means: 'spam',
    text: 'like spam | considered spam | suspicion of spam | suspected spam | probability of spam',
    example: '554 5.7.1 Message rejected under suspicion of SPAM; https://ya.test/1',
    phase: 'data',
  },
  {
    means: 'spam',
    text: 'spam filter | antispam | anti-spam | spamassassin | rspamd | spam or virus | - spam | known spam',
    example: '552 message rejected by anti-spam engine.',
    phase: 'data',
  },
  {
    means: 'spam',
    text: 'spam reject | rejected spam | spam block | spam policy | spam threshold | spam denied | spammy',
    example: '550 Spam rejected',
    phase: 'data',
  },
  {
    // 163.com.
    means: 'spam',
    text: 'dt:spm | dt:sum | mi:spb',
    example: '554 DT:SPM 163 smtp11, please see the help page',
    phase: 'data',
  },
  {
    // Apple, and what others of Proofpoint's customers say.
    means: 'spam',
    text: '[hm0 | [cs01] | content filter | message filtered | filtered by',
    example: '554 5.7.1 [HM08] Message rejected',
    phase: 'data',
  },
  {
    // Orange and Laposte.
    means: 'spam',
    text: 'mail rejete | ofr_506 | ofr_999 | lpn007_506 | ofr006_506',
    example: '550 5.2.0 Mail rejete. Mail rejected. OFR_506 [506]',
    phase: 'data',
  },
  {
    means: 'spam',
    text: 'content rejected | content denied | suspicious content | nature of the content | offensive content | content was rejected',
    example: '550 Mail content denied. http://service.mail.qq.test/help',
    phase: 'data',
  },
  {
    // Barracuda: the list of what was wrong with each recipient, from a filter.
    means: 'spam',
    text: ':blocked) | message blocked | this message was blocked | message has been blocked',
    example: '550 permanent failure for one or more recipients (jo:blocked)',
    phase: 'data',
  },
  {
    means: 'bad_link',
    text: 'url blocked | blocking url | bad url | url in mess | suspicious url | spamrl',
    example: '554 5.7.1 This message contains a blocking URL',
    phase: 'data',
  },
  {
    means: 'bad_format',
    text: 'rfc 5322 | rfc 2822 | rfc5322 | rfc2822 | rfc822 | p=rfcmessagenoncompliant',
    example: '550 5.7.1 This message is not RFC 5322 compliant. There are multiple Subjects.',
    phase: 'data',
  },
  {
    means: 'bad_format',
    text: 'duplicate header | multiple + headers | missing + header | bad header | bad-header',
    example: "554 Transaction failed: Duplicate header 'Subject'.",
    phase: 'data',
  },
  {
    means: 'bad_format',
    text: 'valid address in the from | no from header | from header | invalid header | header error',
    example: '550 5.7.1 Messages without a valid address in the From: are not accepted',
    phase: 'data',
  },
  {
    means: 'bad_format',
    text: 'bare lf | bare <lf> | bare linefeed | bare newline | stray newline | invalidcharacters',
    example: '550 5.6.11 SMTPSEND.BareLinefeedsAreIllegal; message contains bare linefeeds',
    phase: 'data',
  },
  {
    means: 'bad_format',
    text: 'line limit exceeded | line too long | lines longer | line length | lines too long',
    example: '500 Line limit exceeded',
    phase: 'data',
  },
  {
    means: 'bad_format',
    text: 'invalid mime | malformed message | malformed mime | corrupt | content conversion | nested too deep | mime error',
    example: '554 5.6.0 Malformed message',
    phase: 'data',
  },
  {
    means: 'too_big',
    text: 'message too big | message too large | message is too large | message is too big | too large for',
    example: '554 Message too large for this recipient',
    phase: 'data',
  },
  {
    means: 'too_big',
    text: 'size exceeds | message length exceeds | exceeds the maximum | maximum size | maximum email size',
    example: '552 message size exceeds maximum permitted',
    phase: 'mail',
  },
  {
    means: 'too_big',
    text: 'size limit for | message size limit | exceeded mailsize | larger than the current system limit',
    example: '552 The message size limit of this server was exceeded',
    phase: 'data',
  },
];
