/** Checks the signature of a pasted request. The secret stays in the browser. */
import { type ReactNode, useState } from 'react';
import { inWords } from '../../lib/time.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Field, INPUT, Labelled, textOf } from '../../ui/field.tsx';
import { checkSignature, type SignatureResult } from './signature-check.ts';

export function SignatureForm(): ReactNode {
  const [result, setResult] = useState<SignatureResult | null>(null);
  const check = async (form: FormData): Promise<void> => {
    setResult(null);
    // Browsers offer cryptography only to pages that came by https, or from this machine.
    if (!isSecureContext) {
      throw new Error('This check needs a page opened by https, or on the machine of the service.');
    }
    setResult(
      await checkSignature({
        headers: textOf(form, 'headers'),
        // Forms write line breaks as CRLF.
        body: textOf(form, 'body').replaceAll('\r\n', '\n'),
        secret: textOf(form, 'secret'),
        nowMs: Date.now(),
      }),
    );
  };
  return (
    <ActionForm action="Check" send={check}>
      <p>Paste a request that your receiver got. Nothing that you paste leaves this browser.</p>
      <Area
        label="Headers"
        name="headers"
        rows={4}
        placeholder={'webhook-id: …\nwebhook-timestamp: …\nwebhook-signature: v1,…'}
      />
      <Area label="Body as received" name="body" rows={5} placeholder='{"type":"email.…' />
      <Field
        label="Signing secret"
        name="secret"
        placeholder="whsec_…"
        autoComplete="off"
        spellCheck={false}
        required
      />
      {result && <Result result={result} />}
    </ActionForm>
  );
}

function Area(props: {
  label: string;
  name: string;
  rows: number;
  placeholder: string;
}): ReactNode {
  const { label, ...rest } = props;
  return (
    <Labelled label={label} name={rest.name}>
      {(control) => (
        <textarea
          {...rest}
          {...control}
          spellCheck={false}
          required
          className={`${INPUT} h-auto! py-1.5 font-mono text-xs`}
        />
      )}
    </Labelled>
  );
}

function Result({ result }: { result: SignatureResult }): ReactNode {
  if (result.kind === 'problem') {
    return (
      <p role="alert" className="text-sm text-bad">
        {result.message}
      </p>
    );
  }
  return (
    <p role="status" className={`text-sm ${result.isRecent ? 'text-good' : 'text-wait'}`}>
      The signature is valid.{' '}
      {result.isRecent
        ? 'A receiver accepts this request now.'
        : `The request is from ${inWords(Math.abs(result.ageS))} ${result.ageS > 0 ? 'ago' : 'ahead'}: receivers refuse a difference of more than 5 minutes.`}
    </p>
  );
}
