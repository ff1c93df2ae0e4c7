/** Fields with their label, their hint, and their problem. */
import { CircleAlert } from 'lucide-react';
import { type InputHTMLAttributes, type ReactNode, useId } from 'react';
import { useProblemOf } from './form-problems.ts';

export const INPUT =
  'h-control w-full min-w-0 rounded-md border border-control bg-surface px-2.5 text-sm placeholder:text-muted aria-invalid:border-bad aria-invalid:shadow-[0_0_0_1px_var(--color-bad)]';

/** Attributes that connect a control with its label and messages. */
export type ControlProps = {
  id: string;
  'aria-invalid'?: true;
  'aria-describedby'?: string;
};

/**
 * A label above a control, and messages below it.
 * @param props.error replaces what the service said about the field of this name
 * @param props.children gets what the control needs
 */
export function Labelled(props: {
  label: ReactNode;
  name?: string | undefined;
  hint?: ReactNode;
  error?: string | null | undefined;
  isOptional?: boolean | undefined;
  className?: string;
  children: (control: ControlProps) => ReactNode;
}): ReactNode {
  const id = useId();
  const refused = useProblemOf(props.name);
  const error = props.error ?? refused;
  const described = [props.hint && `${id}-hint`, error && `${id}-error`].filter((one) => !!one);
  return (
    <div className={`grid gap-1 text-sm ${props.className ?? ''}`}>
      <label htmlFor={id} className="font-medium">
        {props.label}
        {props.isOptional && <span className="font-normal text-muted"> optional</span>}
      </label>
      {props.children({
        id,
        ...(error && { 'aria-invalid': true }),
        ...(described.length > 0 && { 'aria-describedby': described.join(' ') }),
      })}
      {error && <Message id={`${id}-error`}>{error}</Message>}
      {props.hint && (
        <p id={`${id}-hint`} className="text-muted">
          {props.hint}
        </p>
      )}
    </div>
  );
}

function Message({ id, children }: { id?: string; children: string }): ReactNode {
  return (
    <p id={id} role="alert" className="flex gap-1.5 text-sm text-bad">
      <CircleAlert size={15} aria-hidden className="mt-0.5 shrink-0" />
      <span className="min-w-0 break-words">{children}</span>
    </p>
  );
}

/** The problem of a group of controls with this name, for its fieldset. */
export function FieldProblem({ of }: { of: string }): ReactNode {
  const problem = useProblemOf(of);
  return problem === null ? null : <Message>{problem}</Message>;
}

type Props = InputHTMLAttributes<HTMLInputElement> & {
  label: string;
  hint?: ReactNode;
  error?: string | null;
  isOptional?: boolean;
};

export function Field(props: Props): ReactNode {
  const { label, hint, error, isOptional, className = '', ...rest } = props;
  return (
    <Labelled {...{ label, hint, error, isOptional, className }} name={rest.name}>
      {(control) => <input {...rest} {...control} className={INPUT} />}
    </Labelled>
  );
}

/** Returns the text of a field, or '' when the form has no such field. */
export function textOf(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === 'string' ? value : '';
}

export type Options<Value extends string> = readonly (readonly [value: Value, text: string])[];

/** The option that was chosen in a form; else the first. */
export function chosenOf<Value extends string>(
  form: FormData,
  name: string,
  options: Options<Value>,
): Value {
  const text = textOf(form, name);
  return (options.find(([value]) => value === text) ?? options[0]!)[0];
}
