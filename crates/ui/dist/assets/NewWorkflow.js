import{At as e,E as t,Y as n}from"./app.js";import{F as r,I as i,R as a}from"./cx.js";import{r as o}from"./Page.js";import{n as s}from"./workflows.js";import{o as c}from"./format.js";import{o as l,t as u}from"./YamlEditor.js";var d=a(i(),1),f=r(),p=`refName: example/greet
description: Greets a person, and waits for the answer.
version: 1.0.0
inputSchema:
  type: object
  required: [name]
  properties:
    name: { type: string }
steps:
- name: greeting
  handlerRef: quantum.flow.transform
  input: { text: "Hello \${input.name}" }
- name: answer
  handlerRef: quantum.flow.waitForSignal
  dependsOn: [greeting]
  input: { signal: answer }
output:
  greeting: "\${greeting.text}"
  answer: "\${answer}"
`;function m(){let[r,i]=(0,d.useState)(p),a=l(r),m=s(),h=e(),g=a.issues.filter(e=>e.severity===`error`).length;return(0,f.jsx)(o,{title:`New workflow`,parent:{to:`/workflows`,label:`Workflows`},description:`The definition as YAML. It is checked while you write, and nothing is saved before you create it.`,actions:(0,f.jsx)(n,{variant:`primary`,busy:m.isPending,disabledReason:g>0?`Correct ${c(g,`error`)} first`:void 0,onClick:()=>m.mutate(r,{onSuccess:({refName:e})=>void h({to:`/workflows/$ref`,params:{ref:e}})}),children:`Create`}),children:(0,f.jsxs)(`div`,{className:`flex flex-col gap-3`,children:[(0,f.jsx)(t,{error:m.error??a.error}),(0,f.jsx)(u,{label:`Definition as YAML`,text:r,onChange:i,issues:a.issues})]})})}export{m as NewWorkflow};