/**
 * The second factor of the signed-in member. It is switched on in two steps: a secret for the app, then the first
 * code, which returns the recovery codes.
 */
import { useQuery, useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { Minus } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Totp, TotpSecret } from '../../../../sdk/src/api.ts';
import { call } from '../../api/client.ts';
import { saveAs } from '../../api/download.ts';
import { sessionQuery } from '../../api/session.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Button } from '../../ui/button.tsx';
import { Chip } from '../../ui/chip.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { PasswordField, passwordIn } from './password-field.tsx';
import { QrCode } from './qr-code.tsx';
import { Section } from '../../ui/section.tsx';
import { Code, Problem, RowsSkeleton } from '../../ui/states.tsx';

const KEY = ['session', 'totp'] as const;
/** With this many or fewer, the page asks for new ones. */
const FEW_CODES = 3;

export function SecondFactor(): ReactNode {
  const cache = useQueryClient();
  const [open, setOpen] = useState<'on' | 'off' | null>(null);
  const totp = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => call('getTotp', { signal }),
  });
  const close = (): void => {
    setOpen(null);
    void cache.invalidateQueries({ queryKey: KEY });
    void cache.invalidateQueries({ queryKey: sessionQuery.queryKey, exact: true });
  };
  const remove = async (form: FormData): Promise<void> => {
    await call('removeTotp', { body: passwordIn(form) });
    close();
  };
  return (
    <>
      <Section
        title="Second factor"
        about="Signing in then also requires a code from an authenticator app."
        actions={totp.isSuccess && <Switch isOn={totp.data.enabled} onClick={setOpen} />}
      >
        {codesLeft(totp)}
      </Section>
      <Dialog isOpen={open === 'on'} onClose={close} title="Switch the second factor on">
        <SwitchOn onDone={close} />
      </Dialog>
      <Dialog isOpen={open === 'off'} onClose={close} title="Switch the second factor off?">
        <ActionForm action="Switch off" look="danger" send={remove}>
          <p>You then sign in without a code. Your recovery codes stop working.</p>
          <PasswordField />
        </ActionForm>
      </Dialog>
    </>
  );
}

function Switch(props: { isOn: boolean; onClick: (open: 'on' | 'off') => void }): ReactNode {
  return (
    <>
      <Chip tone={props.isOn ? 'good' : 'quiet'} {...(!props.isOn && { icon: Minus })}>
        {props.isOn ? 'on' : 'off'}
      </Chip>
      {props.isOn ? (
        <Button size="small" look="danger" onClick={() => props.onClick('off')}>
          Switch off
        </Button>
      ) : (
        <Button size="small" onClick={() => props.onClick('on')}>
          Switch on
        </Button>
      )}
    </>
  );
}

/** The recovery codes in their state; null while the second factor is off, because a card has no empty part. */
function codesLeft(totp: UseQueryResult<Totp>): ReactNode {
  if (totp.isPending) return <RowsSkeleton rows={1} />;
  if (totp.isError) return <Problem error={totp.error} retry={() => void totp.refetch()} />;
  const { enabled, recovery_codes_left: left } = totp.data;
  if (!enabled) return null;
  return (
    <>
      <p className={left <= FEW_CODES ? 'text-sm text-wait' : 'text-sm text-muted'}>
        {left === 1 ? '1 recovery code' : `${left} recovery codes`} left
      </p>
      {left <= FEW_CODES && (
        <p className="text-sm text-muted">
          To get new recovery codes, switch the second factor off and on again.
        </p>
      )}
    </>
  );
}

function SwitchOn({ onDone }: { onDone: () => void }): ReactNode {
  const [secret, setSecret] = useState<TotpSecret | null>(null);
  const [codes, setCodes] = useState<string[] | null>(null);
  const begin = async (form: FormData): Promise<void> => {
    setSecret(await call('beginTotp', { body: passwordIn(form) }));
  };
  const confirm = async (form: FormData): Promise<void> => {
    const confirmed = await call('confirmTotp', { body: { code: textOf(form, 'code') } });
    setCodes(confirmed.recovery_codes);
  };
  if (codes !== null) return <Codes codes={codes} onDone={onDone} />;
  if (secret === null) {
    return (
      <ActionForm key="begin" action="Continue" send={begin}>
        <PasswordField />
      </ActionForm>
    );
  }
  return (
    <ActionForm key="confirm" action="Switch on" send={confirm}>
      <p>Scan this code with an authenticator app, or enter the secret there:</p>
      <QrCode text={secret.url} label="QR code of the secret" />
      <Code what="secret" text={secret.secret} />
      <p className="text-sm">
        <a href={secret.url} className="underline">
          Open the authenticator app on this device
        </a>
      </p>
      <Field
        label="Code from the app"
        name="code"
        autoComplete="one-time-code"
        inputMode="numeric"
        required
        autoFocus
      />
    </ActionForm>
  );
}

function Codes({ codes, onDone }: { codes: string[]; onDone: () => void }): ReactNode {
  const text = codes.join('\n');
  return (
    <div className="space-y-3 px-5 pt-1 pb-5">
      <p>
        The second factor is on. Each of these codes signs you in once without the app. Save them
        where you can find them without this device. They are not shown again.
      </p>
      <Code what="recovery codes" text={text} />
      <div className="flex gap-2">
        <Button look="primary" onClick={onDone}>
          I have saved them
        </Button>
        <Button onClick={() => saveAs(new Blob([`${text}\n`]), 'letterhaus-recovery-codes.txt')}>
          Download
        </Button>
      </div>
    </div>
  );
}
